"""What scrapers get is read back by prometheus_client's own parser, with the names, types and labels of the closed list."""

import importlib.util
from contextlib import nullcontext

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from holdfast import App
from holdfast._core.metrics import METRICS, Kind
from holdfast._core.tallies import Tallies
from holdfast.errors import MissingExtra
from holdfast.integrations.prometheus import collector
from holdfast.metrics.exposition import Exposition

TYPES = {Kind.COUNTER: "counter", Kind.SECONDS: "histogram", Kind.BYTES: "histogram", Kind.GAUGE: "gauge"}


def read(exposition: Exposition) -> dict[str, Metric]:
    registry = CollectorRegistry()
    registry.register(exposition)
    assert list(parse_openmetrics(generate_openmetrics(registry).decode()))
    return {family.name: family for family in text_string_to_metric_families(generate_latest(registry).decode())}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    (found,) = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == f"holdfast_{name}" and sample.labels == labels
    ]
    return found


def test_every_metric_has_its_name_type_and_labels() -> None:
    tallies, gauges = Tallies(nullcontext()), {}
    for name, metric in METRICS.items():
        labels = [f"a-{label}" for label in metric.labels]
        if metric.kind is Kind.GAUGE:
            gauges[name, *labels] = 3.0
        elif metric.kind is Kind.COUNTER:
            tallies.count(name, *labels)
        else:
            tallies.observe(name, 0.3, *labels)
    families = read(Exposition(tallies, lambda: gauges))
    assert {name: family.type for name, family in families.items()} == {
        f"holdfast_{name}": TYPES[metric.kind] for name, metric in METRICS.items()
    }
    for name, metric in METRICS.items():
        shown = set(families[f"holdfast_{name}"].samples[0].labels) - {"le"}
        assert shown == set(metric.labels), name
    assert value(families, "attempt_duration_seconds_bucket", queue="a-queue", task="a-task", outcome="a-outcome", le="0.25") == 0
    assert value(families, "attempt_duration_seconds_bucket", queue="a-queue", task="a-task", outcome="a-outcome", le="0.5") == 1


async def test_a_web_process_and_its_embedded_worker_count_what_they_do() -> None:
    app = App("memory://")

    @app.task(max_attempts=1)
    async def mail(to: str) -> None:
        if to == "nowhere":
            raise ValueError("secret-7")

    exposition = collector(app, store=True)
    for to in ("a", "b", "nowhere"):
        await mail.aenqueue(to=to)
    before = read(exposition)
    assert value(before, "jobs_enqueued_total", queue="default", task="mail") == 3
    assert value(before, "payload_bytes_count", task="mail") == 3
    await app.arun_due()
    families = read(exposition)
    assert value(families, "attempts_total", queue="default", task="mail", outcome="completed") == 2
    assert value(families, "jobs_finished_total", queue="default", task="mail", state="failed", reason="HANDLER_ERROR") == 1
    assert value(families, "job_total_seconds_count", queue="default", task="mail") == 3
    assert value(families, "jobs_enqueued_total", queue="default", task="mail") == 3
    assert "secret-7" not in str(families)
    assert "nowhere" not in str(families)


def test_without_its_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install prometheus_client"):
        collector(App("memory://"))


@pytest.mark.parametrize("is_up", [True, False])
async def test_gauges_of_a_store_show_what_waits_and_whether_it_answers(is_up: bool, tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/{'jobs.db' if is_up else 'no/folder/jobs.db'}"
    app = App(url)
    if is_up:
        await app.amigrate()
        await app.aenqueue("imports", path="x")
        await app.queues.apause("default")
    families = read(collector(app, store=True))
    assert value(families, "store_up") == is_up
    if is_up:
        assert value(families, "jobs", queue="default", state="available") == 1
        assert value(families, "queue_backlog", queue="default") == 1
        assert value(families, "queue_paused", queue="default") == 1
        assert value(families, "jobs_without_worker", task="imports") == 1
        assert value(families, "workers", state="live") == 0
    await app.aclose()
