"""``holdfast.integrations.opentelemetry``: spans and metrics of jobs, by the messaging conventions of OpenTelemetry 1.45.

A job carries the context of its enqueue in its headers ``traceparent`` and ``tracestate``, so it survives retries and rescues with it.
The conventions for messaging are in development: all their names are in this file.
"""

import asyncio
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any
from uuid import UUID

from holdfast._core.job import AttemptOutcome, Claim, RescueReason
from holdfast._core.view import JobView
from holdfast._engine.events import Event
from holdfast._engine.runners.current import WORKER, current_claim, current_mask
from holdfast._engine.tasks.around import Around
from holdfast._engine.tasks.around_enqueue import NewJobView
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.spans import OPEN_SPAN
from holdfast._system.clock import SystemClock
from holdfast.app import App
from holdfast.errors import HoldfastError, MissingExtra
from holdfast.integrations.new_apps import on_new_app

try:
    from opentelemetry.context import Context
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]
    from opentelemetry.metrics import MeterProvider, NoOpCounter, get_meter
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        StatusCode,
        TraceFlags,
        TracerProvider,
        get_tracer,
        set_span_in_context,
        use_span,
    )
    from opentelemetry.trace import get_current_span as span_of
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from holdfast.integrations.attempt_ids import SpanIds, follows_jobs, given, ids_of, sampled_below
    from holdfast.integrations.unsampled_spans import Current, UnsampledSpan, dropped_root, is_unsampled, traceparent_in
except ModuleNotFoundError as missing:
    raise MissingExtra(missing.name or "opentelemetry", "opentelemetry") from missing

CHILD_WITHIN = 60.0
"""Seconds after its enqueue in which a first attempt belongs to the trace of the enqueue; a later one begins a new trace."""
MOST_BYTES = 512
"""Bytes of context that a job carries. A longer ``tracestate`` is left out, as the W3C allows."""
NAME = "holdfast"
_W3C = TraceContextTextMapPropagator()


class HoldfastInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Instruments each App that is made after ``instrument()``; ``opentelemetry-instrument holdfast worker …`` calls it."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: this module comes with Holdfast."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        tracers, meters = kwargs.get("tracer_provider"), kwargs.get("meter_provider")
        self._undo = on_new_app(lambda app: instrument_app(app, tracer_provider=tracers, meter_provider=meters))

    def _uninstrument(self, **kwargs: Any) -> None:
        self._undo()


def instrument_app(
    app: App, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Make spans and metrics of one App. The providers are those of the program, unless others are given.

    >>> instrument_app(App("memory://"))
    """
    telemetry = _Telemetry(app, tracer_provider, meter_provider)
    app.around_enqueue(telemetry.enqueue)
    app.registry.around_run.append(Around(telemetry.attempt, is_async=False, passes=True))
    app.on("job.rescued")(telemetry.rescued)


class _Telemetry:
    """The spans and instruments of one App."""

    def __init__(self, app: App, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._app, self._tracers, self._clock = app, tracers, SystemClock()
        self._tracer, self._follows_jobs = get_tracer(NAME, tracer_provider=tracers), False
        meter = get_meter(NAME, meter_provider=meters)
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs enqueued.")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}", "Attempts started.")
        self._counts_nothing = isinstance(self._consumed, NoOpCounter)
        self._calls = meter.create_histogram("messaging.client.operation.duration", "s", "How long enqueues took.")
        self._processed = meter.create_histogram("messaging.process.duration", "s", "How long attempts ran.")
        self._waited = meter.create_histogram("holdfast.job.wait.duration", "s", "From the moment a job was due to its start.")
        self._rescues = meter.create_counter("holdfast.rescues", "{job}", "Jobs taken from workers.")
        self._bound: int | None = None
        self._exports: set[asyncio.Task[None]] = set()

    def enqueue(self, job: NewJobView) -> Iterator[None]:
        """Span the enqueue of a job, and give the job its context. The span is not current: the jobs of one call are siblings."""
        labels = _labels(job.task, job.queue, "enqueue", "send")
        span = self._tracer.start_span(
            f"enqueue {job.task}", kind=SpanKind.PRODUCER, attributes={**labels, "messaging.message.id": str(job.id)}
        )
        job.headers.update(_context_of(span))
        began = self._clock.monotonic()
        try:
            yield
        except BaseException as error:
            labels = {**labels, **_fail(span, error)}
            raise
        else:
            self._sent.add(1, labels)
        finally:
            self._calls.record(self._clock.monotonic() - began, labels)
            span.end()

    def attempt(self, job: Job | SyncJob) -> AbstractContextManager[object]:
        """Return what surrounds an attempt. Most attempts are not sampled, and of these only the span of the enqueue is made current."""
        claim = current_claim()
        # A program may choose where metrics go at any time; until then the counter only stands for a real one.
        if claim is not None and (self._counts_nothing or getattr(self._consumed, "_real_instrument", self) is None):
            span = self._unsampled(claim)
            if span is not None:
                return Current(span)
        return self._run(job)

    @contextmanager
    def _run(self, job: Job | SyncJob) -> Iterator[None]:
        """Span an attempt: in the trace of its enqueue if it is the first and soon, else in a new one.

        The new one has links to the enqueue and to the attempt before.
        """
        claim = current_claim()
        if claim is None:
            yield
            return
        labels = _labels(claim.job.task, claim.job.queue, "run", "process")
        with self._span_of(claim, labels) as span:
            self._consumed.add(1, labels)
            self._waited.record(max(0.0, job.waited), labels)
            if span.is_recording():
                OPEN_SPAN.set(self._part)
            began = self._clock.monotonic()
            try:
                yield
            except BaseException as error:
                labels = {**labels, **_fail(span, error)}
                raise
            finally:
                self._processed.record(self._clock.monotonic() - began, labels)

    @contextmanager
    def _part(self, name: str, details: Mapping[str, str]) -> Iterator[None]:
        """Span a part of an attempt: a step, or a transaction."""
        attributes = {f"holdfast.{key}": value for key, value in details.items()}
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as part:
            try:
                yield
            except BaseException as error:
                _fail(part, error)
                raise

    def _span_of(self, claim: Claim, labels: Mapping[str, Any]) -> AbstractContextManager[Span]:
        """Make the span of an attempt current. Without a sampled enqueue, the first attempt has none."""
        if (unsampled := self._unsampled(claim)) is not None:
            return Current(unsampled)
        held, now = claim.job, self._clock.wall()
        details: dict[str, Any] = {"holdfast.rescued": held.crashes > 0, "holdfast.worker": WORKER.get() or ""}
        span = self._start(held.id, held.task, held.attempt, dict(claim.headers), now, attributes={**labels, **details})
        return use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False)

    def _unsampled(self, claim: Claim) -> Span | None:
        """Return what is current in an attempt that has no span: the span of its enqueue, or one with the ids that its own would have."""
        job, headers = claim.job, claim.headers
        is_lone = len(headers) == 1 and headers[0][0] == "traceparent"
        carried = headers[0][1] if is_lone else traceparent_in(headers)
        if carried is not None and job.attempt == 1 and _is_soon(job.id, 1, self._clock.wall()):
            return UnsampledSpan(carried) if is_unsampled(carried) else None
        return None if self._bound is None else dropped_root(job, carried, self._bound)

    def _start(
        self,
        job: UUID,
        task: str,
        attempt: int,
        headers: Mapping[str, str],
        began: float,
        *,
        attributes: dict[str, Any],
        has_own_ids: bool = True,
        **more: Any,
    ) -> Span:
        """Start the span of an attempt where it belongs: below the enqueue, or in a new trace with links.

        ``has_own_ids``: no other span is exported with the ids that follow from the job and the attempt.
        """
        if not self._follows_jobs:
            # A program may choose its provider after it has made its App; until then the tracer only stands for the real one.
            self._tracer = get_tracer(NAME, tracer_provider=self._tracers)
            self._follows_jobs = follows_jobs(self._tracer)
            self._bound = sampled_below(self._tracer) if self._follows_jobs else None
        parent = _W3C.extract(headers, Context())
        enqueue = span_of(parent).get_span_context()
        is_child = enqueue.is_valid and _is_soon(job, attempt, began)
        links = [] if is_child else _links(job, attempt, enqueue, began, has_earlier=self._follows_jobs)
        details: dict[str, Any] = {"messaging.message.id": str(job), "holdfast.attempt": attempt}
        with given(ids_of(job, attempt, enqueue.trace_id) if self._follows_jobs and has_own_ids else None):
            return self._tracer.start_span(
                f"run {task}",
                context=parent if is_child else Context(),
                kind=SpanKind.CONSUMER,
                attributes={**attributes, **details},
                links=links,
                **more,
            )

    def rescued(self, event: Event) -> None:
        """Export the span of an attempt whose process was killed before it could."""
        fields = event.fields
        self._rescues.add(1, {"messaging.system": NAME, "holdfast.task": fields["task"], "error.type": "worker_crashed"})
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        is_dead = (
            fields["reason"] != RescueReason.EXPIRED.value
        )  # a worker that was only cut off ends its span when it comes back
        export = self._export(UUID(str(fields["job"])), int(fields["attempt"]), str(fields["worker"]), is_dead=is_dead)
        task = loop.create_task(export)
        self._exports.add(task)
        task.add_done_callback(self._exports.discard)

    async def _export(self, id: UUID, attempt: int, worker: str, *, is_dead: bool) -> None:
        try:
            job = await self._app.jobs.aget(id)
        except HoldfastError:
            return  # it was deleted since, or the store is away: a span is not worth another try
        record = next((each for each in job.attempts if each.attempt == attempt), None)
        if record is None or record.outcome is not AttemptOutcome.CRASHED:
            return  # its code had not begun: the number is that of the attempt before, which has a span
        began = None if record.started_at is None else record.started_at.timestamp()
        span = self._start(
            id,
            job.task,
            attempt,
            job.headers,
            self._clock.wall() if began is None else began,
            attributes=_of_lost_attempt(job, worker),
            has_own_ids=is_dead,
            start_time=None if began is None else int(began * 1e9),
        )
        span.set_status(StatusCode.ERROR, "the worker's process ended")
        span.end(None if record.ended_at is None else int(record.ended_at.timestamp() * 1e9))


def _of_lost_attempt(job: JobView, worker: str) -> dict[str, Any]:
    details = {"holdfast.worker": worker, "holdfast.outcome": "crashed", "error.type": "worker_crashed"}
    return {**_labels(job.task, job.queue, "run", "process"), **details}


@lru_cache
def _labels(task: str, queue: str, name: str, kind: str) -> Mapping[str, Any]:
    return {
        "messaging.system": NAME,
        "messaging.destination.name": queue,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.consumer.group.name": task,
        "holdfast.task": task,
    }


def _links(job: UUID, attempt: int, enqueue: SpanContext, now: float, *, has_earlier: bool) -> list[Link]:
    """Return links to the enqueue, and to the attempt before if its ids are known."""
    links = [Link(enqueue)] if enqueue.is_valid else []
    if has_earlier and attempt > 1:
        links += [Link(each, {"holdfast.attempt": attempt - 1}) for each in _spans_of_attempt(job, attempt - 1, enqueue, now)]
    return links


def _spans_of_attempt(job: UUID, attempt: int, enqueue: SpanContext, now: float) -> list[SpanContext]:
    """Return what the span of an earlier attempt may be: two of a first attempt that may have begun before or after ``CHILD_WITHIN``."""
    ids, found = ids_of(job, attempt, enqueue.trace_id), list[SpanIds]()
    is_late = attempt > 1 or not enqueue.is_valid
    if not is_late and enqueue.trace_flags.sampled:
        found.append(SpanIds(enqueue.trace_id, ids.span_id))
    if is_late or not _is_soon(job, attempt, now):
        found.append(ids)
    return [SpanContext(*each, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)) for each in found]


def _is_soon(job: UUID, attempt: int, now: float) -> bool:
    """Return whether a first attempt begins soon after its job's id was made. The ids of schedules have no time: they count as new."""
    has_time, made = job.int >> 76 & 0xF == 7, (job.int >> 80) * 0.001
    return attempt == 1 and (now - made <= CHILD_WITHIN or not has_time)


def _context_of(span: Span) -> dict[str, str]:
    context, carrier = span.get_span_context(), dict[str, str]()
    if context.is_valid and not context.trace_state:  # the propagator writes the same in five times as long
        return {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    _W3C.inject(carrier, set_span_in_context(span))
    if sum(len(name) + len(text.encode()) for name, text in carrier.items()) > MOST_BYTES:
        carrier.pop("tracestate", None)
    return carrier


def _fail(span: Span, error: BaseException) -> dict[str, Any]:
    """Describe what the code raised on its span, without sensitive values, and return it as a label. A sleeping job did not fail."""
    if not isinstance(error, Exception):
        span.set_attribute("holdfast.outcome", "interrupted")
        return {}
    mask = current_mask() or str
    kind = type(error).__qualname__
    trace = "".join(traceback.format_exception(error))
    span.add_event(
        "exception", {"exception.type": kind, "exception.message": mask(str(error)), "exception.stacktrace": mask(trace)}
    )
    span.set_attribute("error.type", kind)
    span.set_attribute("holdfast.outcome", "failed")
    span.set_status(StatusCode.ERROR, kind)
    return {"error.type": kind}
