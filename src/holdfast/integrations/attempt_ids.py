"""The ids of the spans of attempts: they follow from the job and the number of the attempt.

So an attempt can be linked to the one before it, and a killed attempt gets the span that it would have exported. No store has to remember
an id for that, and a killed process could not have written one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID

from opentelemetry.trace import Tracer

SHARED: Final = 0xFFFF_FFFF << 32
"""The bits of a trace id by which a sampler of a share of all traces decides: the upper half of its last 64."""


class SpanIds(NamedTuple):
    """The ids of one span."""

    trace_id: int
    span_id: int


_GIVEN: ContextVar[SpanIds | None] = ContextVar("holdfast_span_ids", default=None)


def ids_of(job: UUID, attempt: int, enqueued: int) -> SpanIds:
    """Return the ids of an attempt that begins a trace. ``enqueued``: the trace id of its enqueue, or 0 without one.

    All attempts of a job share the bits that samplers look at, with its enqueue if that had a trace. So a sampler that keeps a share of
    all traces keeps all attempts of a job or none, and no link leads to a span that was dropped.

    >>> first, second = (ids_of(UUID(int=7), attempt, 0) for attempt in (1, 2))
    >>> first.trace_id & SHARED == second.trace_id & SHARED, first.trace_id == second.trace_id
    (True, False)
    """
    digest = blake2b(job.bytes + attempt.to_bytes(8), digest_size=24, person=b"holdfast-span").digest()
    own, span = int.from_bytes(digest[:16]), int.from_bytes(digest[16:])
    shared = enqueued or int.from_bytes(blake2b(job.bytes, digest_size=8, person=b"holdfast-job").digest())
    return SpanIds((own & ~SHARED | shared & SHARED) or 1, span or 1)


@contextmanager
def given(ids: SpanIds | None) -> Iterator[None]:
    """Give these ids to the span that is started within, if its tracer was prepared by ``follows_jobs``."""
    token = _GIVEN.set(ids)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def follows_jobs(tracer: Tracer) -> bool:
    """Prepare the tracer of Holdfast to take ids that are given, and return whether it does.

    Only the default generator of the SDK is replaced. One that the program has chosen stays, because its ids may have a form.
    """
    try:  # the extra works without the SDK
        from opentelemetry.sdk.trace import Tracer as SdkTracer
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    except ModuleNotFoundError:
        return False
    if not isinstance(tracer, SdkTracer):
        return False
    generator: Any = tracer.id_generator
    if type(generator) is RandomIdGenerator:
        generator = tracer.id_generator = _GivenIds(generator)  # type: ignore[assignment]
    return isinstance(generator, _GivenIds)


def sampled_below(tracer: Tracer) -> int | None:
    """Return below which number the lower half of a trace id is sampled, if the tracer begins traces by that rule; ``None``: by another.

    So an attempt that will be dropped is known by its id. The rule is that of the SDK's samplers of a share, none of which count.
    """
    try:
        from opentelemetry.sdk.trace import Tracer as SdkTracer
        from opentelemetry.sdk.trace.sampling import ParentBased, ParentBasedTraceIdRatio, TraceIdRatioBased
    except ModuleNotFoundError:
        return None
    if not isinstance(tracer, SdkTracer) or not getattr(tracer, "_is_enabled", lambda: True)():
        return None
    sampler = tracer.sampler
    root = getattr(sampler, "_root", None) if type(sampler) in (ParentBased, ParentBasedTraceIdRatio) else sampler
    return root.bound if type(root) is TraceIdRatioBased else None


class _GivenIds:
    """An id generator whose ids are random unless some are given. The spans within an attempt are started outside of ``given``."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def generate_trace_id(self) -> int:
        ids = _GIVEN.get()
        return self._others.generate_trace_id() if ids is None else ids.trace_id

    def generate_span_id(self) -> int:
        ids = _GIVEN.get()
        return self._others.generate_span_id() if ids is None else ids.span_id

    def is_trace_id_random(self) -> bool:
        return True
