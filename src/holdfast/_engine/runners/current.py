"""Whose code runs here, so that what user code logs inside a handler can be told apart."""

from contextvars import ContextVar

from holdfast._core.job import ActiveJob

CURRENT: ContextVar[ActiveJob | None] = ContextVar("holdfast_job", default=None)
"""The attempt that the running handler belongs to: set in each handler's own context, and carried into its thread."""

WORKER: ContextVar[str | None] = ContextVar("holdfast_worker", default=None)
"""The name of the worker that everything started from here belongs to."""
