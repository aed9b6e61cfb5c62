"""Spans follow a job from its enqueue through its attempts, and show nothing of its payload."""

import importlib
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio
from opentelemetry.trace import StatusCode, get_current_span

from holdfast import App, Backoff, Job, SyncJob
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.requests import ClaimRequest
from holdfast._engine.events import EventName
from holdfast.app import environment_of
from holdfast.integrations.opentelemetry import HoldfastInstrumentor, instrument_app
from tests.engine.support import LEASE

CANARY = "canary-4711"


class Watched:
    """An App with spans and metrics in memory."""

    def __init__(
        self,
        share: float = 1.0,
        url: str = "memory://",
        *,
        ids: RandomIdGenerator | None = None,
        is_global: bool = False,
        counts: bool = True,
    ) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share), shutdown_on_exit=False, id_generator=ids)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracers, self.meters = provider, MeterProvider([self.reader], shutdown_on_exit=False)
        self.app = App(url)
        meters = self.meters if counts else NoOpMeterProvider()
        instrument_app(self.app, tracer_provider=None if is_global else provider, meter_provider=meters)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
        return [point for each in metrics if each.name == name for point in each.data.data_points]


@pytest.fixture
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    made = Watched(getattr(request, "param", 1.0))
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()


def trace(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def contexts(*spans: ReadableSpan) -> list[tuple[int, int]]:
    return [(span.context.trace_id, span.context.span_id) for span in spans if span.context is not None]


async def fail_twice(watched: Watched, jobs: int = 1) -> None:
    """Enqueue jobs whose third attempt completes, and run all attempts."""

    @watched.app.task(max_attempts=3, backoff=Backoff.fixed("0s"))
    async def sync(job: Job) -> None:
        if job.attempt < 3:
            raise ValueError

    for _ in range(jobs):
        await watched.app.aenqueue("sync")
    await watched.app.arun_due()


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_the_first_attempt_is_in_the_trace_of_its_enqueue_and_nothing_leaks_into_the_next_job(
    watched: Watched, kind: str
) -> None:
    seen: list[int] = []
    if kind == "loop":

        @watched.app.task
        async def mail(to: str) -> None:
            seen.append(get_current_span().get_span_context().span_id)
    else:

        @watched.app.task
        def mail(to: str) -> None:
            seen.append(get_current_span().get_span_context().span_id)

    await watched.app.aenqueue("mail", to=CANARY)
    await watched.app.aenqueue("mail", to=CANARY)
    await watched.app.arun_due()
    enqueues, runs = watched.spans("enqueue mail"), watched.spans("run mail")
    assert len({trace(span) for span in enqueues}) == 2
    assert [trace(span) for span in runs] == [trace(span) for span in enqueues]
    assert [run.parent.span_id for run in runs if run.parent] == [each.context.span_id for each in enqueues if each.context]
    assert seen == [run.context.span_id for run in runs if run.context]
    assert not get_current_span().get_span_context().is_valid
    assert CANARY not in "".join(span.to_json() for span in watched.exporter.get_finished_spans())
    assert runs[0].attributes is not None
    assert runs[0].attributes["messaging.system"] == "holdfast"
    assert runs[0].attributes["messaging.destination.name"] == "default"
    (sent,) = watched.points("messaging.client.sent.messages")
    assert sent.value == 2
    assert not {"messaging.message.id", "holdfast.worker"} & set(sent.attributes)


@pytest.mark.parametrize("watched", [0.0], indirect=True)
async def test_an_enqueue_that_is_not_sampled_gives_the_attempt_its_trace_and_no_span(watched: Watched) -> None:
    seen: list[str] = []

    @watched.app.task
    async def mail(job: Job) -> None:
        found = get_current_span().get_span_context()
        seen.append(f"{found.trace_id:032x}-{found.span_id:016x} {found.trace_flags.sampled}")
        carried.append(job.headers["traceparent"])

    carried: list[str] = []
    await watched.app.aenqueue("mail")
    await watched.app.arun_due()
    assert seen == [f"{carried[0][3:52]} False"]
    assert not get_current_span().get_span_context().is_valid
    assert watched.exporter.get_finished_spans() == ()
    (consumed,) = watched.points("messaging.client.consumed.messages")
    assert consumed.value == 1
    ((waited,), (ran,)) = watched.points("holdfast.job.wait.duration"), watched.points("messaging.process.duration")
    assert (waited.count, ran.count) == (1, 1)
    assert waited.attributes == ran.attributes == consumed.attributes


async def test_a_retry_is_a_new_trace_linked_to_the_enqueue_and_the_failure_shows_no_sensitive_value(watched: Watched) -> None:
    @watched.app.task
    async def sync(job: Job, password: str) -> None:
        if job.attempt == 1:
            raise ValueError(f"refused {password}")

    await watched.app.aenqueue("sync", password=CANARY)
    await watched.app.arun_due()
    (enqueue,) = watched.spans("enqueue sync")
    (first,) = watched.spans("run sync")
    assert first.status.status_code is StatusCode.ERROR
    assert first.events[0].attributes is not None
    assert first.events[0].attributes["exception.type"] == "ValueError"
    assert CANARY not in first.to_json()
    assert trace(first) == trace(enqueue)
    watched.exporter.clear()
    for view in await watched.app.jobs.alist():
        await watched.app.jobs.areschedule(view.id, delay=0)
    await watched.app.arun_due()
    (second,) = watched.spans("run sync")
    assert second.parent is None
    assert trace(second) != trace(enqueue)
    assert linked(second) == contexts(enqueue, first)
    assert [dict(link.attributes or {}) for link in second.links] == [{}, {"holdfast.attempt": 1}]


async def test_the_attempt_after_a_late_first_one_has_a_link_for_each_trace_in_which_that_one_may_be(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.integrations.opentelemetry.CHILD_WITHIN", -1.0)  # each job counts as old
    await fail_twice(watched)
    (enqueue,), (first, second, third) = watched.spans("enqueue sync"), watched.spans("run sync")
    ((of_enqueue,), (of_first,)) = contexts(enqueue), contexts(first)
    assert first.parent is None
    assert linked(first) == [of_enqueue]
    assert linked(second) == [of_enqueue, (trace(enqueue), of_first[1]), of_first]
    assert linked(third) == [of_enqueue, *contexts(second)]


@pytest.mark.parametrize("counts", [True, False])
async def test_a_sampler_of_a_share_of_all_traces_keeps_all_attempts_of_a_job_or_none(counts: bool) -> None:
    watched = Watched(0.5, counts=counts)
    await fail_twice(watched, jobs=40)
    kept = watched.spans("enqueue sync")
    jobs = {dict(span.attributes or {})["messaging.message.id"] for span in kept}
    runs = [(dict(span.attributes or {})["messaging.message.id"], span) for span in watched.spans("run sync")]
    assert 0 < len(jobs) < 40
    assert Counter(job for job, _ in runs) == dict.fromkeys(jobs, 3)
    known = set(contexts(*kept, *(span for _, span in runs)))
    assert all(link in known for _, span in runs for link in linked(span))
    watched.tracers.shutdown()
    watched.meters.shutdown()


async def test_an_id_generator_that_the_program_has_chosen_stays_and_attempts_have_no_link_to_the_one_before() -> None:
    class Counted(RandomIdGenerator):
        last: int = 0

        def generate_span_id(self) -> int:
            self.last += 1
            return self.last

    watched = Watched(ids=Counted())
    await fail_twice(watched)
    (enqueue,), runs = watched.spans("enqueue sync"), watched.spans("run sync")
    assert [run.context.span_id for run in runs if run.context] == [2, 3, 4]
    assert [linked(run) for run in runs] == [[], contexts(enqueue), contexts(enqueue)]
    watched.tracers.shutdown()
    watched.meters.shutdown()


async def test_the_program_may_choose_its_provider_after_it_has_made_its_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", None)
    watched = Watched(is_global=True)
    await watched.app.aenqueue("mail")
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", watched.tracers)
    await fail_twice(watched)
    (enqueue,), (first, second, _) = watched.spans("enqueue sync"), watched.spans("run sync")
    assert linked(second) == contexts(enqueue, first)
    watched.tracers.shutdown()
    watched.meters.shutdown()


async def test_a_child_is_enqueued_within_the_attempt_of_its_parent(watched: Watched) -> None:
    @watched.app.task
    async def child() -> None:
        pass

    @watched.app.task
    def parent(job: SyncJob) -> None:
        job.enqueue(child)

    await watched.app.aenqueue("parent")
    await watched.app.arun_due()
    (run,), (enqueue,), (second,) = (watched.spans(name) for name in ("run parent", "enqueue child", "run child"))
    assert enqueue.parent is not None
    assert run.context is not None
    assert enqueue.parent.span_id == run.context.span_id
    assert second.parent is not None
    assert enqueue.context is not None
    assert second.parent.span_id == enqueue.context.span_id


async def test_a_killed_attempt_has_its_span_by_the_worker_that_learns_of_the_rescue(watched: Watched) -> None:
    app = watched.app

    @app.task
    async def render() -> None:
        pass

    job = (await app.aenqueue("render")).id
    environment = environment_of(app)
    store = environment.store
    await store.open_lease(LEASE)
    request = ClaimRequest(lease=LEASE.id, claim=environment.chance.uuid4(), tasks=app.registry.policies(), limit=1)
    (claim,) = (await store.exchange([], request)).claims
    await store.end_lease(LEASE.id, LeaseEnd(RescueReason.CRASHED))
    await store.exchange([rescue(claim.job, LeaseEnd(RescueReason.CRASHED), jitter=0.0)])
    app.events.emit(EventName.JOB_RESCUED, job=job, task="render", attempt=1, worker="worker-1", reason="SIGKILL")
    while not watched.spans("run render"):
        await environment.clock.sleep(0.001)
    (span,) = watched.spans("run render")
    assert span.attributes is not None
    assert (span.attributes["error.type"], span.attributes["holdfast.attempt"]) == ("worker_crashed", 1)
    assert span.status.status_code is StatusCode.ERROR
    (enqueue,) = watched.spans("enqueue render")
    assert trace(span) == trace(enqueue)
    (rescues,) = watched.points("holdfast.rescues")
    assert rescues.value == 1
    await app.arun_due()
    lost, second = watched.spans("run render")
    assert lost is span
    assert second.attributes is not None
    assert (second.attributes["holdfast.attempt"], second.attributes["holdfast.rescued"]) == (2, True)
    assert linked(second) == contexts(enqueue, lost)


def test_the_instrumentor_reaches_apps_that_are_made_while_it_is_on() -> None:
    made, exporter = HoldfastInstrumentor(), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    made.instrument(tracer_provider=provider, meter_provider=MeterProvider(shutdown_on_exit=False))
    inside = App("memory://")
    made.uninstrument()
    outside = App("memory://")
    for app in (inside, outside):
        app.enqueue("mail")
    assert [span.name for span in exporter.get_finished_spans()] == ["enqueue mail"]


def test_the_entry_point_names_the_instrumentor() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["opentelemetry_instrumentor"]["holdfast"].partition(":")
    assert getattr(importlib.import_module(module), name) is HoldfastInstrumentor


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_steps_transactions_and_children_are_spans_within_the_attempt(tmp_path: Path, kind: str) -> None:
    watched = Watched(url=f"sqlite:///{tmp_path}/jobs.db")
    app = watched.app

    @app.task
    async def pack() -> None: ...

    def fail(secret: str) -> None:
        raise ValueError(secret)

    if kind == "loop":

        @app.task(max_attempts=2, backoff=Backoff.fixed("0s"))
        async def ship(job: Job, password: str) -> None:
            await job.step("weigh", lambda: get_current_span().get_span_context().span_id and 7)
            async with job.transaction():
                pass
            await job.enqueue(pack)
            if job.attempt == 1:
                await job.step("label", fail, password)
    else:

        @app.task(max_attempts=2, backoff=Backoff.fixed("0s"))
        def ship(job: SyncJob, password: str) -> None:
            job.step("weigh", lambda: 7)
            with job.transaction():
                pass
            job.enqueue(pack)
            if job.attempt == 1:
                job.step("label", fail, password)

    await app.aenqueue("ship", password=CANARY)
    await app.arun_due()
    first, second = watched.spans("run ship")
    parts = [span for name in ("job.step", "job.transaction", "enqueue pack") for span in watched.spans(name)]
    parents = [span.parent.span_id for span in parts if span.parent]
    assert first.context is not None
    assert second.context is not None
    assert (
        parents == [first.context.span_id] * 2 + [first.context.span_id, second.context.span_id] * 2
    )  # a recorded step has none
    made = contexts(*watched.exporter.get_finished_spans())
    assert len(set(made)) == len(made)
    weigh, label = watched.spans("job.step")
    assert [dict(span.attributes or {})["holdfast.step"] for span in (weigh, label)] == ["weigh", "label"]
    assert (weigh.status.status_code, label.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert CANARY not in "".join(span.to_json() for span in watched.exporter.get_finished_spans())
    await app.aclose()
    watched.tracers.shutdown()
    watched.meters.shutdown()
