"""Schedules as values, and the decisions about them: which tick is next, which of the missed ones fire, whose definition counts."""

from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct, json, structs

from holdfast._core.job import NewJob
from holdfast._core.plain_view import PlainView
from holdfast._core.ticks import MOST_COUNTED, When, following, jitter_of, job_of, newest, number_of, upcoming

UNNUMBERED: Final = UUID(int=0)
"""The id of the job in a plan: each tick's job has its own."""

MOST_REPLACED: Final = 20
"""The definitions from code that a schedule remembers after they were replaced."""


class Overlap(StrEnum):
    """What a tick does while the job of an earlier one has not finished."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL = "cancel"


class Source(StrEnum):
    """The last definition: of the code of a worker, or of an operator, which code leaves alone."""

    CODE = "code"
    OPERATOR = "operator"


class Definition(Struct, frozen=True, kw_only=True):
    """What a user writes about a schedule. ``catch_up``: how many of the newest missed ticks fire. ``grace``: seconds after which a
    tick is missed. ``jitter``: the job of a tick is delayed by a part of these seconds that follows from the tick."""

    when: When
    job: NewJob
    catch_up: int = 1
    overlap: Overlap = Overlap.SKIP
    jitter: float = 0.0
    grace: float = 60.0

    @property
    def digest(self) -> str:
        """The same for equal definitions, and for no others."""
        return sha256(json.encode(self)).hexdigest()[:16]


class Plan(Struct, frozen=True, kw_only=True):
    """The definition of a schedule and where it came from; a store keeps it as one JSON text.

    ``edition`` changes with each definition, and is part of the ids of its jobs. ``anchor``: from where ``every`` counts. ``replaced``:
    digests of earlier definitions from code. ``declared_at``: when a worker's code last had this schedule, to a day.
    """

    definition: Definition
    edition: UUID
    anchor: datetime
    source: Source = Source.CODE
    replaced: tuple[str, ...] = ()
    declared_at: datetime | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule as stored. ``version`` is 0 before it is stored, and after that the ``version_of`` its last change."""

    name: str
    plan: Plan
    next_at: datetime
    last_tick: datetime | None = None
    last_job: UUID | None = None
    paused_at: datetime | None = None
    version: int = 0

    @property
    def definition(self) -> Definition:
        return self.plan.definition

    def after(self, instant: datetime) -> datetime:
        """Return the first tick that is later than this instant, and later than the last tick: no tick comes twice."""
        start = instant if self.last_tick is None else max(instant, self.last_tick)
        return following(self.definition.when, self.plan.anchor, start)


def version_of(change: UUID) -> int:
    """Return the version of a schedule after this change: it has had no other change that gave it the same one.

    A number that grows would come again after the schedule was removed, or after the store lost its newest writes: a move or change that
    was meant for an earlier state would then land on a later one.
    """
    return change.int >> 66  # positive, and in the range of a signed integer of 64 bits


class ScheduleList(Struct, frozen=True):
    """Schedules as read at ``now``, on the store's clock. ``wait``: the seconds until the next tick that is not due yet, if any."""

    found: tuple[Schedule, ...]
    now: datetime
    wait: float | None = None


class Advance(Struct, frozen=True, kw_only=True):
    """The move of a schedule from the tick that is due to a later one. It lands only at ``version``, when ``next_at`` is due, and
    while the schedule is not paused. ``change``: a new id for each call, by which a copy of it is known.

    ``job``: the job of ``tick``; None if no tick fires. ``overlap`` is judged in the same write.
    """

    name: str
    version: int
    change: UUID
    tick: datetime
    following: datetime
    overlap: Overlap
    job: NewJob | None = None


class TickAnswer(StrEnum):
    """FIRED: the tick's job is stored. SKIPPED: an earlier job has not finished. DROPPED: missed ticks were left out. LOST: another
    caller was faster, or the schedule changed; nothing happened."""

    FIRED = "fired"
    SKIPPED = "skipped"
    DROPPED = "dropped"
    LOST = "lost"


def advance(schedule: Schedule, now: datetime, change: UUID) -> tuple[Advance, int]:
    """Return the next move of a schedule whose tick is due, and how many missed ticks it leaves out.

    A tick later than ``grace`` is missed. The oldest of the newest ``catch_up`` missed ticks fires; those before it are left out.
    """
    definition, anchor = schedule.definition, schedule.plan.anchor
    when, tick, missed = definition.when, schedule.next_at, 0
    fires, until = True, now - timedelta(seconds=definition.grace)
    if tick < until:
        kept = newest(when, anchor, tick, until, definition.catch_up)
        fires = bool(kept)
        tick = kept[0] if fires else newest(when, anchor, tick, until, 1)[0]
        missed = number_of(when, anchor, schedule.next_at, tick) + (not fires)
    move = Advance(
        name=schedule.name,
        version=schedule.version,
        change=change,
        tick=tick,
        following=following(when, anchor, tick),
        overlap=definition.overlap,
        job=tick_job(schedule, tick) if fires else None,
    )
    return move, min(missed, MOST_COUNTED)


def tick_job(schedule: Schedule, tick: datetime) -> NewJob:
    """Return the job of a tick: the same for any caller."""
    job, name = schedule.definition.job, schedule.name
    delay = job.delay + jitter_of(name, tick, schedule.definition.jitter)
    return structs.replace(of_schedule(job, name), id=job_of(name, tick, schedule.plan.edition), delay=delay)


def tag_of(name: str) -> str:
    """Return the tag of the jobs of a schedule."""
    return f"schedule:{name}"


def of_schedule(job: NewJob, name: str) -> NewJob:
    """Return a job with the tag of its schedule."""
    return structs.replace(job, tags=tuple(dict.fromkeys((*job.tags, tag_of(name)))))


def defined(
    name: str, definition: Definition, old: Schedule | None, now: datetime, edition: UUID, source: Source = Source.CODE
) -> Schedule:
    """Return the schedule with a new definition. Its next tick is the first one after now; a pause stays."""
    made = Plan(definition=definition, edition=edition, anchor=now, source=source)
    declared_at = now if source is Source.CODE else None
    if old is None:
        plan = structs.replace(made, declared_at=declared_at)
        return Schedule(name=name, plan=plan, next_at=following(definition.when, now, now))
    was, replaced = old.plan, old.plan.replaced
    if was.source is Source.CODE:
        own = definition.digest
        replaced = tuple(each for each in (*replaced, was.definition.digest) if each != own)[-MOST_REPLACED:]
    plan = structs.replace(made, anchor=was.anchor, replaced=replaced, declared_at=declared_at or was.declared_at)
    schedule = structs.replace(old, plan=plan)
    return structs.replace(schedule, next_at=schedule.after(now))


def may_define(old: Schedule | None, definition: Definition, living: frozenset[str]) -> bool:
    """Return whether a definition from code replaces the present one. ``living``: the ``declaration`` of each definition
    in the code of living workers.

    What an operator set stays. In a rolling deploy old workers restart too: a definition that was replaced before comes back only when no
    living worker declares the present one.
    """
    if old is None:
        return True
    present = old.definition.digest
    if old.plan.source is Source.OPERATOR or present == definition.digest:
        return False
    return definition.digest not in old.plan.replaced or declaration(old.name, present) not in living


def declaration(name: str, digest: str) -> str:
    """Return how a worker's lease names, in its list, this definition of a schedule."""
    return f"{name}={digest}"


def skipping(schedule: Schedule, number: int) -> Schedule:
    """Return the schedule without its next ticks."""
    tick = schedule.next_at
    for _ in range(number):
        tick = schedule.after(tick)
    return structs.replace(schedule, next_at=tick)


def pausing(schedule: Schedule, now: datetime, *, is_paused: bool) -> Schedule:
    """Return the schedule paused from now on, or going on after now: ticks during a pause are not missed."""
    if is_paused:
        return structs.replace(schedule, paused_at=schedule.paused_at or now)
    if schedule.paused_at is None:
        return schedule
    next_at = schedule.next_at if schedule.next_at > now else schedule.after(now)
    return structs.replace(schedule, paused_at=None, next_at=next_at)


CatchUp = Literal["last", "none", "all"] | int
"""How many of the newest missed ticks fire: one, none, a hundred, or that number."""


class DeclaredSchedule(Struct, frozen=True):
    """A schedule in the code of an App."""

    name: str
    definition: Definition

    @property
    def declaration(self) -> str:
        """Its entry in the list of a worker's lease."""
        return declaration(self.name, self.definition.digest)


class ScheduleView(PlainView, frozen=True, kw_only=True):
    """A schedule as people see it. ``next``: the coming ticks, on the store's calendar; empty while it is paused.

    ``catch_up``: how many of the newest missed ticks fire. ``jitter`` and ``grace`` are in seconds.
    """

    name: str
    when: str
    task: str
    queue: str
    next: tuple[datetime, ...]
    last_tick: datetime | None
    last_job: UUID | None
    paused_at: datetime | None
    source: Source
    catch_up: int
    overlap: Overlap
    jitter: float
    grace: float
    declared_at: datetime | None

    @classmethod
    def of(cls, schedule: Schedule, number: int) -> "ScheduleView":
        """Return the view of a schedule with that number of coming ticks."""
        plan, definition = schedule.plan, schedule.definition
        ticks = () if schedule.paused_at is not None else (schedule.next_at, *upcoming_after(schedule, number - 1))
        return cls(
            name=schedule.name,
            when=str(definition.when),
            task=definition.job.task,
            queue=definition.job.queue,
            next=ticks[:number],
            last_tick=schedule.last_tick,
            last_job=schedule.last_job,
            paused_at=schedule.paused_at,
            source=plan.source,
            catch_up=definition.catch_up,
            overlap=definition.overlap,
            jitter=definition.jitter,
            grace=definition.grace,
            declared_at=plan.declared_at,
        )


def upcoming_after(schedule: Schedule, number: int) -> list[datetime]:
    """Return the ticks that follow the next one."""
    return upcoming(schedule.definition.when, schedule.plan.anchor, schedule.next_at, max(0, number))
