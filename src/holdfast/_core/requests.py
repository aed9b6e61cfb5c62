"""What the engine asks of a store: leases, claims, progress, notes and filters, as values."""

from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Failure, State, Token
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming


class NewLease(Struct, frozen=True):
    """A worker incarnation's right to hold claims: a client-made id, who it is, and its timing.

    ``grace``: seconds its code gets to stop. ``slots``: how many jobs it runs at once. ``is_isolated``: it takes last tries
    only, asks for one at a time, and gets none while it holds one.
    """

    id: UUID
    worker: str
    process: ProcessIdentity
    timing: LeaseTiming
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    grace: float = 20.0
    slots: int = 0
    is_isolated: bool = False


class IsolatedJobs(StrEnum):
    """What a claim does with jobs whose next crash would be their last: those run in isolation."""

    EXCLUDE = "leave"
    ONLY = "only"
    INCLUDE = "also"


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """Claim at most ``limit`` jobs, born running, and ``prefetch`` more, born claimed.

    ``tasks`` maps each task the worker knows to its policy, which is written on the row. ``queues=None``: all.
    ``ids``: of these jobs only, which a transport delivered; what else makes a job claimable holds for them too.
    """

    lease: UUID
    claim: UUID
    tasks: Mapping[str, Policy]
    limit: int
    prefetch: int = 0
    queues: tuple[str, ...] | None = None
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ids: tuple[UUID, ...] | None = None


class ProgressUpdate(Struct, frozen=True, kw_only=True):
    """What a handler reported about its job. ``None`` leaves a field as it is; the latest progress wins.

    ``order`` grows with each update of a worker: one that arrives after a later one changes nothing. ``None``: in any case.
    """

    job: UUID
    token: Token
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None
    order: int | None = None


class AttemptNote(Struct, frozen=True, kw_only=True):
    """Something learnt too late to move the job: kept on that attempt's own record."""

    job: UUID
    token: Token
    late_result: bytes | None = None
    error: Failure | None = None
    stacks: str | None = None


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs to list, newest first; ``before`` is the last id of the previous page."""

    state: State | None = None
    task: str | None = None
    queue: str | None = None
    tag: str | None = None
    limit: int = 100
    before: UUID | None = None
