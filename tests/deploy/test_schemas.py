"""What the chart and the compose file make fits the schemas of Kubernetes, KEDA, Prometheus' operator and Compose."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deploy.tools import CHART, DEPLOY, rendered, require
from tests.docs.pages import PAGES, blocks_of

COMPOSE = (DEPLOY / "docker/compose.yaml").read_text()
PACKAGES = {
    "keda.sh/v1alpha1": "cloudcoil.models.keda.v1alpha1",
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
}
"""Models made from the definitions (CRD) of other operators."""
KUBERNETES = "1.37"
MANIFESTS = [page for page in PAGES if "\napiVersion: " in page.read_text(encoding="utf-8")]
PLAIN: dict[str, Any] = {}
LEAST: dict[str, Any] = {
    "metrics": {"enabled": False},
    "dashboard": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
}
ALL: dict[str, Any] = {
    "image": {"repository": "registry.example/shop", "tag": "7", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "broker": {"existingSecret": "workers"},
    "worker": {
        "replicas": 3,
        "processes": 2,
        "queues": ["mail", "reports"],
        "extraArgs": ["--no-color"],
        "env": [{"name": "TZ", "value": "UTC"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "api"}}}],
        "livenessProbe": True,
        "nodeSelector": {"pool": "jobs"},
        "tolerations": [{"key": "jobs", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
        },
    },
    "podDisruptionBudget": {"maxUnavailable": "25%"},
    "serviceMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
    "dashboard": {"actions": True},
    "keda": {"enabled": True},
}
CASES = {
    "as it comes": PLAIN,
    "with the least": LEAST,
    **{
        f"all, scaled by {name}": {**ALL, "keda": {"enabled": True, "trigger": name}}
        for name in ("metrics-api", "prometheus", "postgresql")
    },
}


def closed(schema: Any) -> Any:
    """Return the schema, with no other fields in objects whose fields it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(made.get("properties"), dict) else made


def problems(document: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with an object."""
    import kubernetes_validate  # noqa: PLC0415 – only `make prove` installs it

    if package := PACKAGES.get(document["apiVersion"]):
        schema = closed(getattr(import_module(package), document["kind"]).model_json_schema())
        yield from (error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document))
        return
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
        yield error.message


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    for module in ("helm_python", "kubernetes_validate", "cloudcoil", "compose_spec"):
        require(module)


@pytest.mark.prove
@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_object_of_the_chart_fits_its_schema(values: dict[str, Any]) -> None:
    documents = rendered(**values)
    assert documents
    assert [f"{each['kind']} {each['metadata']['name']}: {wrong}" for each in documents for wrong in problems(each)] == []


@pytest.mark.prove
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "\napiVersion: " in page.read_text(encoding="utf-8")], ids=lambda page: page.name
)
def test_every_manifest_of_the_documents_fits_its_schema(page: Path) -> None:
    found = [each for block in blocks_of(page) if block.language == "yaml" for each in yaml.safe_load_all(block.text)]
    assert [wrong for each in found if "apiVersion" in each for wrong in problems(each)] == []


@pytest.mark.prove
def test_the_values_here_reach_every_template() -> None:
    kinds = {each["kind"] for values in CASES.values() for each in rendered(**values)}
    named = {
        kind
        for file in (CHART / "templates").glob("*.yaml")
        for kind in re.findall(r"^kind: (\w+)$", file.read_text(), re.MULTILINE)
    }
    assert kinds == named


@pytest.mark.prove
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", "spec/replica", 2),
        ("Deployment", "spec/template/spec/containers/0/ports/0/containerPort", "9464"),
        ("Deployment", "spec/template/spec/volumes/0/emptyDir/size", "1Gi"),
        ("Deployment", "spec/selector", None),
        ("Service", "spec/ports/0/portName", "metrics"),
        ("PodDisruptionBudget", "spec/maxUnavailable", 2.5),
        ("ServiceMonitor", "spec/endpoints/0/interval", "soon"),
        ("ServiceMonitor", "spec/endpoints/0/bearer", "token"),
        ("ScaledObject", "spec/minReplicas", 1),
        ("ScaledObject", "spec/triggers/0/metadata/targetValue", 50),
        ("ScaledObject", "spec/scaleTargetRef", {}),
        ("TriggerAuthentication", "spec/secretTargetRef/0/secret", "x"),
    ],
)
def test_what_does_not_fit_is_noticed(kind: str, path: str, value: object) -> None:
    found = next(each for each in rendered(**ALL) if each["kind"] == kind)
    *parents, last = (int(name) if name.isdigit() else name for name in path.split("/"))
    place: Any = found
    for name in parents:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    assert [*problems(found)] != []


def composed(text: str) -> list[str]:
    """Return the services of a compose file; ``ValueError`` if it is not one."""
    import compose_spec  # noqa: PLC0415 – only `make prove` installs it

    found = compose_spec.PyOptions(apply_merge=True).from_yaml(text)
    found.validate()
    return list(found.service_names())


@pytest.mark.prove
def test_the_compose_file_fits_the_specification() -> None:
    assert composed(COMPOSE) == ["postgres", "migrate", "worker", "dashboard"]


@pytest.mark.prove
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cap_drop:", "cap_dropped:"),
        ("interval: 5s", "interval: 5 s"),
        ("service_healthy", "service_well"),
        ("restart: unless-stopped", "restart: sometimes"),
        ("tmpfs: [/tmp]", "tmpfs: {path: /tmp}"),
        ("8400:8400", "8400:84000"),
    ],
)
def test_a_wrong_compose_file_is_noticed(right: str, wrong: str) -> None:
    assert right in COMPOSE
    with pytest.raises(ValueError, match=r"\w"):
        composed(COMPOSE.replace(right, wrong))
