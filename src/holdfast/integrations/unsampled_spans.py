"""Attempts without a span: what they cost each job, although nothing of them is exported.

Nearly all attempts of a program that samples one in a hundred traces are such. An attempt of this kind only makes a span current that is
not sampled, so that a sampler that follows the parent drops the spans that the handler starts.
"""

import re
from typing import Final

from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, Span, SpanContext, TraceFlags, set_span_in_context

from holdfast._core.headers import Headers
from holdfast._core.job import ActiveJob
from holdfast.integrations.attempt_ids import ids_of

is_unsampled: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[02]").fullmatch
"""Matches a valid ``traceparent`` of version 00 that is not sampled: the flags 02 state that its trace id is random."""

_VALID: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}").fullmatch
_RANDOM: Final = TraceFlags(TraceFlags.RANDOM_TRACE_ID)
(_KEY,) = set_span_in_context(INVALID_SPAN, Context())
LOWER_HALF: Final = (1 << 64) - 1


class UnsampledSpan(NonRecordingSpan):
    """The span of an enqueue that was not sampled.

    It reads its ids when they are asked for. That saves 1 µs in each job whose handler starts no span.
    """

    def __init__(self, traceparent: str) -> None:
        self._text = traceparent

    def get_span_context(self) -> SpanContext:
        """Return the ids that the header has."""
        return SpanContext(int(self._text[3:35], 16), int(self._text[36:52], 16), is_remote=True)

    def __repr__(self) -> str:
        return f"UnsampledSpan({self._text!r})"


class Current:
    """Makes a span current that nothing is recorded on. ``use_span`` does the same, and takes longer than an empty job."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        # Nothing else is current in nearly all attempts; then this takes half as long as ``set_span_in_context``.
        self._token = attach(set_span_in_context(self._span) if get_current() else Context({_KEY: self._span}))
        return self._span

    def __exit__(self, *_: object) -> None:
        detach(self._token)


def dropped_root(job: ActiveJob, carried: str | None, bound: int) -> Span | None:
    """Return the span of an attempt that begins a trace, if that trace is not sampled. A sampled one has a lower half below the bound.

    Asking the sampler takes ten times as long: the SDK makes attributes, links and a span before it drops them.
    """
    if carried is not None and _VALID(carried) is None:
        return None
    ids = ids_of(job.id, job.attempt, 0 if carried is None else int(carried[3:35], 16))
    return (
        None if ids.trace_id & LOWER_HALF < bound else NonRecordingSpan(SpanContext(*ids, is_remote=False, trace_flags=_RANDOM))
    )


def traceparent_in(headers: Headers) -> str | None:
    """Return the context that a job carries; empty if it has to be read in full, and ``None`` without one."""
    if len(headers) == 1:
        return headers[0][1] if headers[0][0] == "traceparent" else None
    found = dict(headers)
    return "" if "tracestate" in found else found.get("traceparent")
