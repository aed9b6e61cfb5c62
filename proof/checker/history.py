"""What happened, in order: one event format for simulated and for real processes.

Three kinds of event share it. *Calls* are what a client of the store saw: invoke, then ok, fail or unknown.
*Truth* is what the store really did, row by row, in commit order; ``by`` holds the token with which it was asked
for, where that is known. *Life* is what processes and handlers did.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec
from msgspec import Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import PLACE_OF, AttemptOutcome, Place, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.member import Member
from holdfast._core.policy import Policy
from holdfast._core.schedule import Overlap
from holdfast._core.ticks import When
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.lane_rows import ClaimRow, LimitRow, QueueRow

FAIL_OVER = "fail_over"  # the verb of a store that forgets its newest writes
CRASHED = "its runner crashed"  # the note of code that has ended so
IN_CARE = "in care of a healthy supervisor"  # ends the note of a process' end


class Phase(StrEnum):
    """The kind of an event.

    Of a call: ``INVOKE``, then ``OK``, ``FAIL`` or ``UNKNOWN``. ``TRUTH``: a change of the store. ``LIFE``: of a process or a handler.
    """

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    TRUTH = "truth"
    LIFE = "life"


class JobRow(Struct, frozen=True):
    """A job's row, as far as the properties need it. ``witness`` is the token its last report carried as text.

    ``key``: its unique key, the task's name before it; ``key_terms``: for how long it holds it; ``key_kept``: the seconds for which a
    completed one still holds it. ``lane``: the key by which claims take turns. ``is_known``: some worker has its task's code.
    ``due_in``, ``expires_in`` and ``key_kept`` are by the store's clock in the write that made the row, negative when they have passed.
    ``is_owed``: a hook; ``hooks_committed``: how often one has committed. ``available_at``: by the store's clock, only to be compared.
    ``member``: what it is in its workflow. ``awaits``: the name of the signal that it waits for.
    """

    state: State
    token: Token
    lease: UUID | None = None
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    policy: Policy = Policy()
    is_cancel_requested: bool = False
    witness: str = ""
    result: str = ""
    reason: Reason | None = None
    queue: str = "default"
    key: str = ""
    key_terms: Uniqueness = UNTIL_FINISHED
    key_kept: float | None = None
    is_known: bool = True
    due_in: float = 0.0
    expires_in: float | None = None
    is_owed: bool = False
    hooks_committed: int = 0
    task: str = ""
    priority: int = 0
    available_at: float = 0.0
    lane: str = ""
    member: Member | None = None
    awaits: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it has ended."""
        return PLACE_OF[self.state] is Place.FINISHED

    @property
    def is_last_try(self) -> bool:
        """Whether one more crash ends it."""
        return self.policy.needs_isolation(self.crashes)


class LeaseRow(Struct, frozen=True):
    """A lease's row. ``overdue`` is measured by the store's clock in the write that changed it."""

    process: str
    worker: str
    ttl: float
    margin: float
    overdue: float
    is_ended: bool = False
    is_free: bool = False
    culprits: dict[UUID, RescueReason] = {}
    is_draining: bool = False
    is_isolated: bool = False
    grace: float = 20.0
    slots: int = 0
    tasks: tuple[str, ...] = ()
    beat: float = 0.0


ROWS = "rows."
"""Begins the names of tasks whose jobs are runs of a rows handler: their progress and result are not its own."""
OWN_ROWS = ("booking", "thread_booking")
"""The tasks whose handlers commit a user's row in each attempt that completes."""


class TableRow(Struct, frozen=True):
    """A row of a watched table. ``fence``: the fence under which it is in progress; ``held``: seconds since its stamp, by the
    table's clock; ``effects``: how many transactions have committed an effect of it."""

    key: int
    status: str
    fence: str = ""
    held: float = 0.0
    resets: int = 0
    effects: int = 0


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """A schedule's row. ``at``: the time of the write that made it; all times are those of the store's clock."""

    at: datetime
    when: When
    anchor: datetime
    next_at: datetime
    catch_up: int = 1
    overlap: Overlap = Overlap.SKIP
    grace: float = 60.0
    last_tick: datetime | None = None
    last_job: UUID | None = None
    is_paused: bool = False


AnyRow = JobRow | LeaseRow | TableRow | ScheduleRow | LimitRow | QueueRow | ClaimRow | FlowRow | StepRow | SignalRow


class By(Struct, frozen=True):
    """The verb that caused a write, and the right that it carried.

    ``outcome``: what distinguishes two outcomes under one token; of a verb of a watched table, its fence. ``is_judged``: a
    supervisor ended the lease because it had expired. Of an enqueue: ``call`` is its id, ``parent`` the job under whose token it was
    sent, and ``holder``, in its answer, the job that has the key. Of a tick: ``call`` is the id of the move of its schedule.
    """

    verb: str
    token: Token | None = None
    precondition: Precondition | None = None
    outcome: str = ""
    is_judged: bool = False
    record: AttemptOutcome | None = None
    call: UUID | None = None
    parent: UUID | None = None
    holder: UUID | None = None


class Event(Struct, frozen=True, kw_only=True):
    """One thing that happened at ``time`` (seconds since the start), in or for ``process``."""

    time: float
    process: str
    what: str
    phase: Phase
    job: UUID | None = None
    token: Token | None = None
    lease: UUID | None = None
    before: AnyRow | None = None
    after: AnyRow | None = None
    by: By | None = None
    note: str = ""

    def __str__(self) -> str:
        parts = [f"{self.time:9.3f}", f"{self.process:<18}", f"{self.what} {self.phase}" if self.phase in _CALLS else self.what]
        parts += [f"token={_short(self.token)}"] if self.token else []
        parts += [f"lease={self.lease.hex[:6]}"] if self.lease else []
        if self.after is not None:
            parts.append(_row(self.after) if self.lease and self.job is None else f"{_row(self.before)} -> {_row(self.after)}")
        if self.by is not None:
            parts.append(
                f"by {self.by.verb}({_short(self.by.token)}{', ' + self.by.precondition if self.by.precondition else ''})"
            )
        return " ".join([*parts, self.note])


_CALLS = (Phase.INVOKE, Phase.OK, Phase.FAIL, Phase.UNKNOWN)


class History:
    """Events in the order in which they happened."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = list(events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def add(self, event: Event) -> None:
        """Append an event and give it its number."""
        self.events.append(event)

    def digest(self) -> str:
        """Return a digest that is equal for equal runs, under every interpreter."""
        summary = hashlib.sha256()
        for event in self.events:
            summary.update(msgspec.json.encode(event))
        return summary.hexdigest()

    def story(self, job: UUID, *, until: int | None = None, longest: int = 60) -> str:
        """List the raw events of one job and of the leases that held it, up to ``until``, one a line; ``narrative`` words them."""
        events = self.events[:until]
        leases = {event.lease for event in events if event.job == job and event.lease}
        holders = {event.after.process for event in events if event.lease in leases and isinstance(event.after, LeaseRow)}
        shown = [
            event
            for event in events
            if event.job == job
            or (event.lease in leases and event.what == "lease" and _is_relevant(event))
            or (event.what.startswith("process.") and event.process in holders)
        ]
        skipped = len(shown) - longest
        lines = [f"… {skipped} earlier events"] if skipped > 0 else []
        return "\n".join([*lines, *(str(event) for event in shown[-longest:])])


IN_MEMORY = "kept in memory in the epoch "
"""Begins the note of a beat that a leading broker has answered without a write; the epoch follows."""
EMBEDDED = "app"  # the role of a process that runs a worker in its own event loop


def label(process: ProcessIdentity) -> str:
    """Return one name for one process incarnation, in all kinds of event."""
    return f"{process.host}-{process.pid}-{process.start}"


def token_in(result: object) -> str:
    """Return the token that a handler returned: its result is that text, or has it beside a list."""
    token = result.get("token") if isinstance(result, dict) else result
    return token if isinstance(token, str) else ""


def outcome_of(move: Transition) -> str:
    """Name what distinguishes one outcome under a token from another."""
    kind = move.record or (AttemptOutcome.RELEASED if move.to is State.AVAILABLE else "first try")
    return f"{move.to} {kind} {move.reason or ''} {move.failures}/{move.crashes}"


def _is_relevant(event: Event) -> bool:
    """Return whether the event concerns a job: a mere beat does not."""
    before, after = event.before, event.after
    is_beat = isinstance(before, LeaseRow) and isinstance(after, LeaseRow) and before.is_ended == after.is_ended
    return not is_beat or (isinstance(before, LeaseRow) and before.overdue > 0)


def _short(token: Token | None) -> str:
    return "-" if token is None else f"{token.number}:{token.claim.hex[:6] if token.claim else '-'}"


def _row(row: AnyRow | None) -> str:
    match row:
        case None:
            return "nothing"
        case LimitRow() | QueueRow() | ClaimRow() | FlowRow() | StepRow() | SignalRow():
            return str(row)
        case JobRow():
            spent = f"a{row.attempt} f{row.failures} c{row.crashes}"
            return f"{row.state}[{_short(row.token)} {spent}{' cancel!' if row.is_cancel_requested else ''}]"
        case TableRow():
            return f"row {row.key} {row.status}[{row.fence or '-'} r{row.resets}]"
        case ScheduleRow():
            return f"{'paused' if row.is_paused else 'next'} {row.next_at:%H:%M:%S.%f}, last {row.last_tick or '-'}"
        case LeaseRow():
            return "ended" + (" free" if row.is_free else "") if row.is_ended else f"alive({-row.overdue:.3f}s left)"
