"""The requests of the engine to a store: leases, claims, progress, notes and filters, as values."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Failure, Reason, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.origin import Origin
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming

Value = TypeVar("Value", bound=str)


class NewLease(Struct, frozen=True):
    """A worker incarnation's right to hold jobs: an id made by the client, the worker's identity, and its timing.

    ``grace``: seconds its code gets to stop. ``slots``: the number of jobs it runs at once. ``is_isolated``: it takes isolated jobs
    only, asks for one at a time, and gets none while it has one. ``declares``: the definitions of schedules, limits and queues in its code.
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
    declares: tuple[str, ...] = ()


class BeatNote(Struct, frozen=True, kw_only=True):
    """What a supervisor knows of a worker with a beat; ``kept``: the seconds for which the store remembers it. ``None``: unknown.

    ``running``: jobs whose code runs; ``claimed``: jobs it holds beside those. ``memory``: bytes of the process. ``loop_lag``: the longest
    that a ping waited for its answer since the note before. ``silence``: seconds since its last answer.
    """

    lease: UUID
    kept: float
    running: int | None = None
    claimed: int | None = None
    memory: int | None = None
    loop_lag: float | None = None
    silence: float | None = None


class IsolatedJobs(StrEnum):
    """The treatment, in a claim, of jobs that another crash would end: those run isolated."""

    EXCLUDE = "leave"
    ONLY = "only"
    INCLUDE = "also"


class ClaimKind(StrEnum):
    """The lanes that a claim takes from: those without a limit, or those whose task, queue or cluster has one."""

    PLAIN = "plain"
    LIMITED = "limited"


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """A request for at most ``limit`` jobs that start running at once, and ``prefetch`` more that stay claimed.

    ``tasks`` maps each task the worker knows to its policy, which is written on the row. ``queues=None``: all. ``ids``: only these jobs,
    which a transport delivered; all other conditions of a claim apply to them, too. ``cursor``: where lanes are served from; the answer
    has the next one. ``kind`` does not count for delivered jobs, which are claimed within their limits. ``voids``: it takes no job unless
    its lease has this number of voids; None: any number.
    """

    lease: UUID
    claim: UUID
    tasks: Mapping[str, Policy]
    limit: int
    prefetch: int = 0
    queues: tuple[str, ...] | None = None
    isolated: IsolatedJobs = IsolatedJobs.EXCLUDE
    ids: tuple[UUID, ...] | None = None
    cursor: Cursor = ()
    kind: ClaimKind = ClaimKind.PLAIN
    voids: int | None = None

    @property
    def room(self) -> int:
        """The most jobs it may get."""
        return self.limit + self.prefetch

    def parts(self) -> tuple["ClaimRequest", ...]:
        """Return the request for the jobs that start at once, and the one for those that stay claimed; none for no jobs."""
        both = structs.replace(self, prefetch=0), structs.replace(self, limit=0)
        return tuple(part for part in both if part.room > 0)

    def rest(self, taken: int, cursor: Cursor) -> "ClaimRequest":
        """Return what is left of one of these parts after ``taken`` jobs."""
        limit, prefetch = max(0, self.limit - taken), max(0, self.prefetch - taken)
        return structs.replace(self, limit=limit, prefetch=prefetch, cursor=cursor)


class QueueSettings(Struct, frozen=True, kw_only=True):
    """How the lanes of a queue are served. ``weight``: the jobs of a turn. ``key_weights``: by key, what its turns are multiplied with.

    ``priority`` is added to that of each job of the queue: to new ones, and to those that wait when it is set.
    """

    priority: int = 0
    weight: int = 1
    key_weights: Mapping[str, int] = {}
    origin: Origin = Origin()


class ProgressUpdate(Struct, frozen=True, kw_only=True):
    """The progress that a handler reported about its job. ``None`` leaves a field as it is; the latest progress wins.

    ``order`` grows with each update of a worker: an update that arrives after a newer one changes nothing. ``None``: it always applies.
    ``points``: all that the attempt has reported so far, as ``points_text`` writes it.
    """

    job: UUID
    token: Token
    stage: str | None = None
    fraction: float | None = None
    message: str | None = None
    checkpoint: bytes | None = None
    order: int | None = None
    points: str | None = None


class AttemptNote(Struct, frozen=True, kw_only=True):
    """A finding that came too late to move the job, to be kept on the record of its attempt."""

    job: UUID
    token: Token
    late_result: bytes | None = None
    error: Failure | None = None
    stacks: str | None = None

    @property
    def is_late(self) -> bool:
        """Whether it has what the attempt returned or raised."""
        return self.late_result is not None or self.error is not None


def merged_notes(learnt: Iterable[AttemptNote]) -> list[AttemptNote]:
    """Return one note for each attempt. Of several the latest wins, but the first error stays."""
    latest: dict[tuple[UUID, Token], AttemptNote] = {}
    for note in learnt:
        old = latest.get((note.job, note.token), note)
        latest[note.job, note.token] = structs.replace(
            old,
            late_result=old.late_result if note.late_result is None else note.late_result,
            error=old.error or note.error,
            stacks=old.stacks if note.stacks is None else note.stacks,
        )
    return list(latest.values())


class SteerVerb(StrEnum):
    """What an operator does to jobs, named after the verb of a store."""

    CANCEL = "request_cancel"
    REOPEN = "reopen"
    RESCHEDULE = "reschedule"
    DELETE = "delete"


_ACTIVE = frozenset((State.CLAIMED, State.RUNNING))
_WAITING = frozenset((State.SCHEDULED, State.AVAILABLE, State.BLOCKED))
FITTING: Final[Mapping[SteerVerb, frozenset[State]]] = {
    SteerVerb.CANCEL: frozenset(State) - {State.COMPLETED, State.FAILED},
    SteerVerb.REOPEN: frozenset(State) - {State.BLOCKED, *_ACTIVE},
    SteerVerb.RESCHEDULE: _WAITING,
    SteerVerb.DELETE: frozenset(State) - _ACTIVE,
}
"""The states of the jobs that a verb does not refuse: a dry run judges by them."""
MEANT: Final[Mapping[SteerVerb, frozenset[State]]] = {
    SteerVerb.CANCEL: frozenset((State.CANCELLED, *_ACTIVE)),
    SteerVerb.REOPEN: frozenset((State.AVAILABLE,)),
    SteerVerb.RESCHEDULE: _WAITING,
    SteerVerb.DELETE: frozenset(),
}
"""The states in which a verb leaves the jobs that it did not refuse."""


class Steer(Struct, frozen=True):
    """An operator's verb; ``delay`` and ``run_at`` are those of RESCHEDULE, ``is_fresh`` is that of REOPEN."""

    verb: SteerVerb
    delay: float = 0.0
    run_at: datetime | None = None
    is_fresh: bool = False


Choice = str | tuple[str, ...] | None
"""One value, or several; None: any."""


class JobFilter(Struct, frozen=True, kw_only=True):
    """The jobs to list, newest first; ``before`` is the last id of the previous page. All conditions must hold.

    ``down_to``: the oldest id at which to look; ``skip``: leave out that many, the newest ones.

    A condition with several values holds for a job with one of them. ``worker``: the one that has the job, or had it last.
    ``workflow``: that of which the job is a part; ``schedule``: that whose tick made it. ``is_rescued``: whether it was taken back from a
    worker that had lost it. ``text``: a part of the task's name, or of the type and message of the error; ASCII letters match in either
    case. ``up_to``: the jobs that were enqueued by then and, if they have finished, had finished by then.
    ``older_than``: seconds since the job ended or, if it has not, since it was enqueued. ``attempts_at_least``: of its attempts so far.
    ``…_after``: at that time or later; ``…_before``: earlier. A job that has not finished is in no range of ``finished``.
    ``only_workflows``: only the roots of workflows. ``error_key``: that of the job's error.
    """

    state: State | tuple[State, ...] | None = None
    reason: Reason | tuple[Reason, ...] | None = None
    task: Choice = None
    queue: Choice = None
    key: str | None = None
    tag: Choice = None
    older_than: float | None = None
    attempts_at_least: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    available_after: datetime | None = None
    available_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    only_workflows: bool = False
    error_key: str | None = None
    worker: Choice = None
    workflow: UUID | None = None
    schedule: str | None = None
    is_rescued: bool | None = None
    text: str | None = None
    up_to: datetime | None = None
    limit: int = 100
    before: UUID | None = None
    down_to: UUID | None = None
    skip: int = 0

    @property
    def has_no_conditions(self) -> bool:
        """Whether it is for all jobs of a range of ids."""
        return self == JobFilter(limit=self.limit, before=self.before, down_to=self.down_to, skip=self.skip)


def several(choice: Value | tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    """Return the values of a condition, one or several; None: any."""
    return choice if choice is None or isinstance(choice, tuple) else (choice,)
