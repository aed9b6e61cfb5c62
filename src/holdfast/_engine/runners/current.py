"""Which job's code runs here, so that log lines of user code inside a handler name their job."""

from contextvars import ContextVar

from holdfast._core.job import ActiveJob

CURRENT: ContextVar[ActiveJob | None] = ContextVar("holdfast_job", default=None)
"""The attempt that the running handler belongs to. It is set in each handler's own context, and carried into its thread."""

WORKER: ContextVar[str | None] = ContextVar("holdfast_worker", default=None)
"""The name of the worker that everything started from here belongs to."""
