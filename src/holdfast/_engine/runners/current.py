"""Which job's code runs here, so that log lines of user code inside a handler name their job, and hide its secrets."""

from contextvars import ContextVar

from holdfast._core.job import ActiveJob, Claim
from holdfast._core.sensitive import Mask

CURRENT: ContextVar[ActiveJob | None] = ContextVar("holdfast_job", default=None)
"""The attempt that the running handler belongs to. It is set in each handler's own context, and carried into its thread."""

MASK: ContextVar[Mask | None] = ContextVar("holdfast_mask", default=None)
"""What hides the sensitive values of that job."""

WORKER: ContextVar[str | None] = ContextVar("holdfast_worker", default=None)
"""The name of the worker that everything started from here belongs to."""


def enter_job(claim: Claim, sensitive: frozenset[str]) -> None:
    """Make this context the job's own. ``sensitive``: the names that its task declares."""
    CURRENT.set(claim.job)
    MASK.set(Mask((claim.payload, claim.checkpoint), sensitive))


def leave_job() -> None:
    """Make this context no job's."""
    CURRENT.set(None)
    MASK.set(None)
