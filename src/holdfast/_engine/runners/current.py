"""Which job's code runs here, so that log lines of user code inside a handler name their job, and hide its secrets."""

from contextvars import ContextVar

from holdfast._core.job import ActiveJob, Claim
from holdfast._core.sensitive import Mask

WORKER: ContextVar[str | None] = ContextVar("holdfast_worker", default=None)
"""The name of the worker that everything started from here belongs to."""

_CURRENT: ContextVar["_Attempt | None"] = ContextVar("holdfast_attempt", default=None)


class _Attempt:
    """The attempt that the running handler belongs to. It is set in each handler's own context, and carried into its thread."""

    __slots__ = ("claim", "mask", "sensitive")

    def __init__(self, claim: Claim, sensitive: frozenset[str]) -> None:
        self.claim, self.sensitive = claim, sensitive
        self.mask: Mask | None = None


def enter_job(claim: Claim, sensitive: frozenset[str]) -> None:
    """Make this context the job's own. ``sensitive``: the names that its task declares."""
    _CURRENT.set(_Attempt(claim, sensitive))


def leave_job() -> None:
    """Make this context no job's."""
    _CURRENT.set(None)


def current_job() -> ActiveJob | None:
    """Return the job whose code runs here."""
    attempt = _CURRENT.get()
    return None if attempt is None else attempt.claim.job


def current_claim() -> Claim | None:
    """Return the claim of that job, which has its headers."""
    attempt = _CURRENT.get()
    return None if attempt is None else attempt.claim


def current_mask() -> Mask | None:
    """Return what hides the sensitive values of that job. It is made when it is first asked for: few jobs need it."""
    attempt = _CURRENT.get()
    if attempt is None:
        return None
    if attempt.mask is None:
        attempt.mask = Mask((attempt.claim.payload, attempt.claim.checkpoint), attempt.sensitive)
    return attempt.mask
