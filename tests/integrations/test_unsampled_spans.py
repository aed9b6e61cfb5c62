"""An attempt that is not sampled has no span, and none of its handler's spans is exported."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import get_current_span

from holdfast import Backoff, Job, NewJobView, SyncJob
from tests.integrations.test_opentelemetry import Watched, fail_twice


@pytest.mark.parametrize("kind", ["loop", "thread"])
@pytest.mark.parametrize("counts", [True, False])
async def test_a_span_that_a_handler_starts_in_an_attempt_without_a_span_is_dropped_too(kind: str, counts: bool) -> None:
    watched, seen = Watched(0.0, counts=counts), list[tuple[int, bool]]()
    everything = TracerProvider(sampler=DEFAULT_ON, shutdown_on_exit=False)
    everything.add_span_processor(SimpleSpanProcessor(watched.exporter))

    def look(attempt: int) -> None:
        found = get_current_span().get_span_context()
        seen.append((found.span_id, found.trace_flags.sampled))
        with everything.get_tracer("user").start_as_current_span("inner"):
            pass
        if attempt < 3:
            raise ValueError

    if kind == "loop":

        @watched.app.task(max_attempts=3, backoff=Backoff.fixed("0s"))
        async def sync(job: Job) -> None:
            look(job.attempt)
    else:

        @watched.app.task(max_attempts=3, backoff=Backoff.fixed("0s"))
        def sync(job: SyncJob) -> None:
            look(job.attempt)

    for headers in ({}, {"tenant": "acme"}):
        await sync.options(headers=headers).aenqueue()

    @watched.app.around_enqueue
    def forget(job: NewJobView) -> Iterator[None]:
        del job.headers["traceparent"]
        yield

    await sync.aenqueue()
    await watched.app.arun_due()
    assert len({span for span, _ in seen}) == 9
    assert {is_sampled for _, is_sampled in seen} == {False}
    assert not get_current_span().get_span_context().is_valid
    assert watched.exporter.get_finished_spans() == ()
    for each in (watched.tracers, everything, watched.meters):
        each.shutdown()


@pytest.mark.parametrize(
    "carried", [f"00-{'0' * 32}-{'1' * 16}-00", f"00-{'A' * 32}-{'1' * 16}-00", f"00-{'1' * 32}-{'1' * 16}-01"]
)
async def test_a_context_that_is_sampled_or_cannot_be_read_gives_the_attempt_a_span(carried: str) -> None:
    watched = Watched(counts=False)

    @watched.app.around_enqueue
    def replace(job: NewJobView) -> Iterator[None]:
        job.headers["traceparent"] = carried
        yield

    await fail_twice(watched)
    assert len(watched.spans("run sync")) == 3
    watched.tracers.shutdown()
    watched.meters.shutdown()
