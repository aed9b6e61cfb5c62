"""Spans of what a handler does within its attempt. An integration for traces sets how one is opened; without it there are none."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

OpenSpan = Callable[[str, Mapping[str, str]], AbstractContextManager[object]]

OPEN_SPAN: ContextVar[OpenSpan | None] = ContextVar("holdfast_open_span", default=None)
"""What opens a span in the attempt that this context belongs to."""


def span(name: str, **details: str) -> AbstractContextManager[object]:
    """Return the span around a part of an attempt."""
    open_span = OPEN_SPAN.get()
    return nullcontext() if open_span is None else open_span(name, details)
