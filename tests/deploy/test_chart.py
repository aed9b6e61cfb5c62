"""The Helm chart: its values fit its schema, Helm itself reads and renders it, and what it starts exists."""

import json
import re
from functools import partial
from typing import Any

import jsonschema
import pytest
import yaml

from holdfast._core.metrics import METRICS
from holdfast._core.release import VERSION
from holdfast.cli.commands import root
from tests.deploy.tools import CHART, rendered, require

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = {file.name: file.read_text() for file in (CHART / "templates").iterdir()}


def test_the_chart_has_the_version_of_the_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_values_fit_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker": {**VALUES["worker"], "concurrency": 0}},
        {"worker": {**VALUES["worker"], "replica": 2}},
        {"store": {"existingSecret": "", "key": "url"}},
        {"app": "shop"},
        {"keda": {"trigger": "cpu"}},
        {"keda": {"queue": "a'; DROP TABLE jobs"}},
        {"dashboard": {"port": 80}},
    ],
)
def test_the_schema_refuses_what_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, **wrong}, SCHEMA)


def test_the_templates_use_values_that_exist_and_all_of_them() -> None:
    used = {path for text in TEMPLATES.values() for path in re.findall(r"\.Values\.([\w.]+)", text)}
    for path in used:
        found: Any = VALUES
        for name in path.split("."):
            assert name in found, path
            found = found[name]
    flat = {f"{group}.{name}" for group, values in VALUES.items() if isinstance(values, dict) for name in values}
    assert {each for each in flat if not any(path == each or path.startswith(each + ".") for path in used)} == set()


def test_no_secret_is_made_here() -> None:
    assert not any("kind: Secret" in text for text in TEMPLATES.values())


@pytest.fixture(scope="module")
def render() -> Any:
    """Return the function that renders the chart, by Helm's own library."""
    require("helm_python")
    return rendered


def of_kind(documents: list[dict[str, Any]], kind: str, name: str) -> Any:
    (found,) = (each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name)
    return found["spec"]


@pytest.mark.prove
def test_helm_renders_workers_whose_options_exist_and_whose_grace_fits(render: Any) -> None:
    documents = render()
    kinds = sorted((each["kind"], each["metadata"]["name"]) for each in documents)
    assert kinds == [
        ("Deployment", "shop-dashboard"),
        ("Deployment", "shop-worker"),
        ("PodDisruptionBudget", "shop-worker"),
        ("Service", "shop-dashboard"),
        ("Service", "shop-metrics"),
    ]
    for name in ("worker", "dashboard"):
        pod = of_kind(documents, "Deployment", f"shop-{name}")["template"]["spec"]
        (container,) = pod["containers"]
        command, *words = container["args"]
        params = root.commands[command].make_context(command, (["shop:app"] if name == "worker" else []) + words).params
        assert pod["securityContext"]["runAsNonRoot"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in pod["volumes"]}
        if name == "worker":
            assert params["grace"] < pod["terminationGracePeriodSeconds"]
            assert params["metrics_store"]
        secrets = [each["valueFrom"]["secretKeyRef"]["name"] for each in container["env"] if "valueFrom" in each]
        assert secrets == ["holdfast-store"]


@pytest.mark.prove
@pytest.mark.parametrize("trigger", ["metrics-api", "prometheus", "postgresql"])
def test_helm_renders_each_way_to_scale(render: Any, trigger: str) -> None:
    documents = render(
        keda={"enabled": True, "trigger": trigger, "queue": "mail", "waits": 2.5}, serviceMonitor={"enabled": True}
    )
    spec = of_kind(documents, "ScaledObject", "shop-worker")
    assert "replicas" not in of_kind(documents, "Deployment", spec["scaleTargetRef"]["name"])
    (found,) = spec["triggers"]
    target = {"metrics-api": "targetValue", "prometheus": "threshold", "postgresql": "targetQueryValue"}[trigger]
    assert (found["type"], found["metadata"][target]) == (trigger, "50")  # 1 process x 20 slots x 2.5 waits
    if trigger == "metrics-api":
        assert found["metadata"]["url"] == "http://shop-dashboard.jobs.svc:8400/api/v1/queues/mail"
    if trigger == "prometheus":
        used = re.findall(r"holdfast_(\w+)", found["metadata"]["query"])
        assert {*used} <= METRICS.keys()
    assert of_kind(documents, "ServiceMonitor", "shop")["endpoints"][0]["port"] == "metrics"


@pytest.mark.prove
@pytest.mark.parametrize(
    "values",
    [
        {"keda": {"enabled": True, "trigger": "prometheus", "minReplicas": 0}},
        {"keda": {"enabled": True}, "dashboard": {"enabled": False}},
        {"keda": {"enabled": True, "minReplicas": 5, "maxReplicas": 2}},
        {"metrics": {"enabled": False}, "serviceMonitor": {"enabled": True}},
        {"worker": {"concurrency": 0}},
        {"app": "shop"},
    ],
)
def test_helm_refuses_what_cannot_work(render: Any, values: dict[str, Any]) -> None:
    from helm_python import HelmError  # noqa: PLC0415 – only `make prove` installs it

    with pytest.raises((HelmError, AssertionError)):
        partial(render, **values)()
