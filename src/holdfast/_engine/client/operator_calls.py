"""What operators do to queues, limits and schedules, with the record of each action; every verb is sent again while the store is away."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import structs

from holdfast._core.answers import EnqueueAnswer, LeaseView, Purged
from holdfast._core.audit import AuditEntry, AuditFilter, AuditNote
from holdfast._core.history import Minute
from holdfast._core.job import NewJob
from holdfast._core.limits import Limit, LimitView, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.requests import QueueSettings
from holdfast._core.schedule import Schedule, ScheduleList
from holdfast._engine.client.acting import new_note
from holdfast._engine.client.announcement import announce
from holdfast._engine.client.flow_calls import FlowCalls
from holdfast._engine.events import EventName
from holdfast._engine.store_defaults import auditing, draining, history, lanes, limits, purge, scheduling
from holdfast._ports.transport import Hint

BATCH = 1000
"""How many jobs one write moves at most when many were asked for, so that other writers do not wait long behind it."""


class OperatorCalls(FlowCalls, ABC):
    """The verbs of operators that name no jobs."""

    @abstractmethod
    async def enqueue(self, jobs: Sequence[NewJob]) -> EnqueueAnswer:
        """Write all jobs durably, or none."""

    def note(self, action: str, target: Mapping[str, Any]) -> AuditNote | None:
        """Return the action to record with a verb, or ``None`` if the store remembers none."""
        return new_note(self._environment, action, target)

    def another_write(self, by: AuditNote | None) -> AuditNote | None:
        """Return an action for one more write that belongs to it."""
        return None if by is None else structs.replace(by, write=self._environment.chance.uuid4())

    async def audits(self, which: AuditFilter) -> Sequence[AuditEntry]:
        """Return what operators did, newest first."""
        return await self._retry("audits", partial(auditing(self._store).audits, which))

    async def minutes(self, since: datetime, until: datetime, most: int) -> Sequence[Minute]:
        """Return what workers did in each minute of that time, newest first."""
        return await self._retry("minutes", partial(history(self._store).minutes, since, until, most))

    async def schedules(self) -> ScheduleList:
        """Return all schedules, by name."""
        return await self._retry("schedules", scheduling(self._store).schedules)

    async def change_schedule(self, name: str, action: str, change: Callable[[Schedule | None, datetime], Schedule]) -> Schedule:
        """Change a schedule as it is now, and return it as changed; a change by others in between is not lost."""
        verbs, chance = scheduling(self._store), self._environment.chance
        by = _given(self.note(action, {"schedule": name}))
        while True:
            found = await self.schedules()
            new = change(next((each for each in found.found if each.name == name), None), found.now)
            if await self._retry("set_schedule", partial(verbs.set_schedule, new, chance.uuid4(), **by)):
                return new

    async def remove_schedule(self, name: str) -> None:
        """Forget a schedule; its jobs stay."""
        by = _given(self.note("schedule.remove", {"schedule": name}))
        await self._retry("remove_schedule", partial(scheduling(self._store).remove_schedule, name, **by))

    async def run_schedule(self, name: str, job: NewJob) -> EnqueueAnswer:
        """Enqueue a job of a schedule for an operator."""
        return await self.enqueue_by("schedule.run", {"schedule": name, "job": job.id}, job)

    async def enqueue_by(self, action: str, target: Mapping[str, Any], job: NewJob) -> EnqueueAnswer:
        """Enqueue a job for an operator, with the record of the action if the store keeps one."""
        by, call = self.note(action, target), self._environment.chance.uuid4()
        if by is None:
            return await self.enqueue([job])
        answer = await self._retry("enqueue_by", partial(auditing(self._store).enqueue_by, call, [job], by))
        if not answer.duplicates:
            await announce(self._environment, [job])
        return answer

    async def limits(self) -> tuple[LimitView, ...]:
        """Return all limits, each with what is used of it."""
        return await self._retry("limits", limits(self._store).limits)

    async def set_limit(self, scope: Scope, limit: Limit | None, origin: Origin) -> None:
        """Set or remove the limit of a scope, and wake workers that it kept from claiming."""
        target = {"scope": scope.kind.value, "name": scope.name} | ({} if limit is None else {"limit": limit})
        by = _given(self.note("limit.clear" if limit is None else "limit.set", target))
        await self._retry("set_limit", partial(limits(self._store).set_limit, scope, limit, origin, **by))
        await self._environment.transport.publish([Hint(scope.name if scope.kind is ScopeKind.QUEUE else "")])

    async def set_queue(self, queue: str, settings: QueueSettings | None) -> None:
        """Set or remove the settings of a queue."""
        target = {"queue": queue} | ({} if settings is None else {"settings": structs.replace(settings, origin=Origin())})
        by = _given(self.note("queue.unset" if settings is None else "queue.set", target))
        await self._retry("set_queue", partial(lanes(self._store).set_queue, queue, settings, **by))

    async def pause(self, queues: Sequence[str], *, is_paused: bool) -> None:
        """Stop all claims from these queues, or allow them again."""
        by = _given(self.note("pause" if is_paused else "resume", {"queues": [*queues]}))
        await self._retry("pause", partial(self._store.pause, queues, is_paused=is_paused, **by))
        for queue in queues:
            self._events.emit(EventName.QUEUE_PAUSED if is_paused else EventName.QUEUE_RESUMED, queue=queue)
        if not is_paused:
            await self._environment.transport.publish([Hint(queue) for queue in queues])

    async def request_drain(self, worker: LeaseView) -> bool:
        """Ask a worker to take no more jobs and to end; ``False`` if its lease has ended."""
        by = _given(self.note("drain", {"worker": worker.worker}))
        return await self._retry("request_drain", partial(draining(self._store).request_drain, worker.id, **by))

    async def record(self, action: str, target: Mapping[str, Any], changed: int) -> None:
        """Record an action that wrote nothing in this store; one that remembers no actions forgets it."""
        if (by := self.note(action, target)) is not None:
            await self._retry("record_action", partial(auditing(self._store).record_action, by, changed))

    async def purge(self, queues: Sequence[str]) -> int:
        """Delete jobs that wait in the queues and were enqueued before the store's first answer, in batches; return how many."""
        purged, until = dict.fromkeys(queues, 0), None
        by = self.note("purge", {"queues": [*purged]})
        for queue in purged:
            while (some := await self._retry("purge", partial(self._purge_some, queue, until, by))).jobs:
                purged[queue] += some.jobs
                until = some.until
            until = some.until
            self._events.emit(EventName.QUEUE_PURGED, queue=queue, jobs=purged[queue])
        return sum(purged.values())

    async def _purge_some(self, queue: str, until: datetime | None, by: AuditNote | None) -> Purged:
        """Delete some jobs. A copy of a call deletes more of them, so it is one more write of the action."""
        return await purge(self._store, queue, BATCH, until, by=self.another_write(by))


def _given(by: AuditNote | None) -> dict[str, AuditNote]:
    """Return the argument by which a verb records an action; a store that remembers none may not have it."""
    return {} if by is None else {"by": by}
