"""``holdfast copy``: waiting jobs of one store, moved to another one of any kind.

Each part of a page is written at the destination, read back, and only then deleted at the source. No claim can take a job that is in
both stores, because its queue is paused in both: at the source from the beginning on, at the destination until all is moved. A copy
that was killed leaves both paused. The next one skips the ids that are at the destination already, and deletes them at the source.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct, structs

from holdfast._core.answers import QueueView
from holdfast._core.audit import AuditFilter
from holdfast._core.job import ACTIVE, FINISHED, NewJob, State
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter, QueueSettings
from holdfast._core.transfer import MOST_JOBS, Stays, is_as_sent, moved, parts_of, reason_to_stay
from holdfast._engine.store_defaults import auditing, has_audit, has_schedules, limits, offers, scheduling, steps
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.limits import Limits
from holdfast._ports.steps import Steps
from holdfast._ports.store import Store
from holdfast.errors import ConfigurationError, StoreUnavailable

LOOK = 1.0
"""Seconds between two looks at the jobs that still run."""
_MARK = "holdfast-copy-"
_MOST_ACTIONS = 1000
_WAITING = (State.SCHEDULED, State.AVAILABLE)  # in this order: a job that becomes due between two lists is in the second


class Copied(Struct, frozen=True, kw_only=True):
    """What a copy has done, or would do. ``already_there``: those of the moved jobs that an earlier copy had written.

    ``stay``: jobs left at the source, by reason. ``not_copied``: what else the source has. ``paused_source`` and ``paused_destination``:
    queues that are paused now.
    """

    queues: tuple[str, ...]
    moved: int
    already_there: int
    running: int
    stay: Mapping[str, int]
    not_copied: Mapping[str, int]
    paused_source: tuple[str, ...] = ()
    paused_destination: tuple[str, ...] = ()


class Copying:
    """One copy. ``only``: the names of queues; ``None``: all. ``report``: gets a line for people when something was done."""

    def __init__(
        self,
        source: Store,
        destination: Store,
        *,
        only: Collection[str] | None,
        clock: Clock,
        chance: Randomness,
        report: Callable[[str], None],
    ) -> None:
        self._source, self._destination, self._only = source, destination, only
        self._clock, self._chance, self._report = clock, chance, report
        self._priorities = dict[str, int]()
        self._moved, self._already_there, self._stay = 0, 0, Counter[Stays]()

    async def plan(self) -> Copied:
        """Return what ``run`` would do now. Nothing is written."""
        queues = await self._chosen()
        for queue in queues:
            for state in _WAITING:
                await self._each_page(queue.name, state, self._count)
        return await self._result(queues, sum(_number(queues, state) for state in ACTIVE))

    async def run(self, *, wait: float | None = None) -> Copied:
        """Move the jobs. ``wait``: the most seconds for running jobs to end; else ``StoreUnavailable``. Repeatable after any error."""
        await self._require_two_stores()
        queues = await self._drained(wait)
        names = [queue.name for queue in queues]
        were_paused = {queue.name for queue in await self._destination.queues(most=0) if queue.paused_at is not None}
        opened = [name for name in names if name not in were_paused]
        if opened:
            await self._destination.pause(opened, is_paused=True)
        before = -1
        while self._moved > before:  # until a pass finds nothing: jobs may have been enqueued since
            before, self._stay = self._moved, Counter()
            for name in names:
                for state in _WAITING:
                    await self._each_page(name, state, self._move)
        if opened:
            await self._destination.pause(opened, is_paused=False)
        done = await self._result(await self._chosen(), 0)
        left_paused = tuple(name for name in names if name in were_paused)
        return structs.replace(done, paused_source=tuple(names), paused_destination=left_paused)

    async def _require_two_stores(self) -> None:
        """Raise ``ConfigurationError`` if both are the same store, by two URLs: each job would be "there already", and deleted."""
        mark = f"{_MARK}{self._chance.uuid4().hex}"
        await self._source.pause([mark], is_paused=True)
        try:
            seen = [queue.name for queue in await self._destination.queues(most=0)]
        finally:
            # also those of copies that were killed here
            marks = [queue.name for queue in await self._source.queues() if queue.name.startswith(_MARK)]
            await self._source.pause(marks, is_paused=False)
        if mark in seen:
            raise ConfigurationError(["--from and --to name the same store: name another one to copy to"])

    async def _chosen(self) -> list[QueueView]:
        queues = [queue for queue in await self._source.queues() if not queue.name.startswith(_MARK)]
        unknown = sorted(set(self._only or ()) - {queue.name for queue in queues})
        if unknown:
            there = ", ".join(queue.name for queue in queues) or "none"
            raise ConfigurationError([f"--queue {', '.join(unknown)}: the source has no such queue; there are: {there}"])
        chosen = [queue for queue in queues if self._only is None or queue.name in self._only]
        self._priorities |= {queue.name: queue.settings.priority for queue in chosen}
        return chosen

    async def _drained(self, wait: float | None) -> list[QueueView]:
        """Pause the queues, and return them once none of their jobs is claimed or running."""
        started, reported = self._clock.monotonic(), 0
        while True:
            queues = await self._chosen()
            opened = [queue.name for queue in queues if queue.paused_at is None]
            running = sum(_number(queues, state) for state in ACTIVE)
            if opened:
                await self._source.pause(opened, is_paused=True)
                continue  # a claim may have come before the pause
            if not running:
                return queues
            if running != reported:
                self._report(f"waiting for {running} running jobs")
                reported = running
            if wait is not None and self._clock.monotonic() - started >= wait:
                remedy = "let workers of the source end them, then run the copy again; the queues stay paused"
                raise StoreUnavailable(f"{running} jobs still run at the source: {remedy}")
            await self._clock.sleep(LOOK)

    async def _each_page(self, queue: str, state: State, act: Callable[[Sequence[JobRecord]], Awaitable[None]]) -> None:
        which = JobFilter(state=state, queue=queue, limit=MOST_JOBS)
        while page := await self._source.list(which):
            movable = [row for row in page if await self._may_move(row)]
            for part in parts_of(movable):
                await act(part)
            which = structs.replace(which, before=page[-1].id)

    async def _may_move(self, row: JobRecord) -> bool:
        why = reason_to_stay(row, self._now())
        if why is None and row.attempt and offers(self._source, Steps) and (await steps(self._source).steps(row.id)).records:
            why = Stays.STEPS
        if why is not None:
            self._stay[why] += 1
        return why is None

    async def _count(self, rows: Sequence[JobRecord]) -> None:
        there = await self._there(rows)
        self._stay[Stays.ID_TAKEN] += sum(there[row.id].task != row.task for row in rows if row.id in there)
        known = sum(there[row.id].task == row.task for row in rows if row.id in there)
        self._already_there += known
        self._moved += len(rows) - len(there) + known

    async def _move(self, rows: Sequence[JobRecord]) -> None:
        there = await self._there(rows)
        foreign = {row.id for row in rows if row.id in there and there[row.id].task != row.task}
        self._stay[Stays.ID_TAKEN] += len(foreign)
        arrived = await self._write([row for row in rows if row.id not in there])
        known = await self._kept([row for row in rows if row.id in there and row.id not in foreign], there)
        landed = [*known, *arrived]
        if not landed:
            return
        left = await self._source.delete(landed, only_waiting=True)
        if left:  # a worker of the source may run them
            await self._destination.delete([*left], only_waiting=True)
            self._stay[Stays.CHANGED] += len(left)
        self._moved += len(landed) - len(left)
        self._already_there += sum(job not in left for job in known)
        self._report(f"{self._moved} jobs moved")

    async def _write(self, rows: Sequence[JobRecord]) -> list[UUID]:
        """Enqueue jobs at the destination, read them back, and return those that are there with all their values."""
        sent = self._sent(rows)
        while sent:
            answer = await self._destination.enqueue(self._chance.uuid4(), [*sent.values()])
            taken = [job for job, other in answer.duplicates.items() if not (answer.is_refused and other.is_same)]
            for job in taken:
                del sent[job]
            self._stay[Stays.KEY_TAKEN] += len(taken)
            if not answer.is_refused:
                break
        found = await self._there([row for row in rows if row.id in sent])
        missing = [job for job in sent if job not in found]
        if missing:
            raise StoreUnavailable(f"job {missing[0]} was written to the destination and is not there: check it, then copy again")
        return await self._unaltered(sent, found)

    async def _kept(self, rows: Sequence[JobRecord], there: Mapping[UUID, JobRecord]) -> list[UUID]:
        """Return those that an earlier copy wrote. Those that still wait are compared again: it may have been killed before it did."""
        begun = [row.id for row in rows if there[row.id].attempt or there[row.id].state not in _WAITING]
        return begun + await self._unaltered(self._sent([row for row in rows if row.id not in begun]), there)

    async def _unaltered(self, sent: Mapping[UUID, NewJob], found: Mapping[UUID, JobRecord]) -> list[UUID]:
        altered = [job for job, new in sent.items() if not is_as_sent(found[job], new)]
        if altered:
            await self._destination.delete(altered, only_waiting=True)
            self._stay[Stays.ALTERED] += len(altered)
        return [job for job in sent if job not in altered]

    def _sent(self, rows: Sequence[JobRecord]) -> dict[UUID, NewJob]:
        return {row.id: moved(row, self._priorities[row.queue], self._now()) for row in rows}

    async def _there(self, rows: Sequence[JobRecord]) -> dict[UUID, JobRecord]:
        found = await asyncio.gather(*(self._destination.get(row.id) for row in rows))
        return {row.id: row for row in found if row is not None}

    async def _result(self, queues: Sequence[QueueView], running: int) -> Copied:
        parked = {Stays.HELD: _number(queues, State.HELD), Stays.BLOCKED: _number(queues, State.BLOCKED)}
        stay = {why.value: number for why, number in (self._stay + Counter(parked)).items() if number}
        others = {
            "finished jobs": sum(_number(queues, state) for state in FINISHED),
            "queues with settings": sum(queue.settings != QueueSettings() for queue in queues),
            "schedules": len((await scheduling(self._source).schedules()).found) if has_schedules(self._source) else 0,
            "limits": len(await limits(self._source).limits()) if offers(self._source, Limits) else 0,
            "actions of operators": await self._number_of_actions(),
        }
        return Copied(
            queues=tuple(queue.name for queue in queues),
            moved=self._moved,
            already_there=self._already_there,
            running=running,
            stay=stay,
            not_copied={what: number for what, number in others.items() if number},
        )

    async def _number_of_actions(self) -> int:
        """Return how many of the newest actions are at the source, at most 1,000."""
        has_some = has_audit(self._source)
        return len(await auditing(self._source).audits(AuditFilter(limit=_MOST_ACTIONS))) if has_some else 0

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall(), UTC)


def _number(queues: Sequence[QueueView], state: State) -> int:
    return sum(queue.counts.get(state, 0) for queue in queues)
