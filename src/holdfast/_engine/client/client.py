"""The caller's side: enqueue, read, cancel, retry, and what operators do. Every verb is sent again while the store is away."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatView, EnqueueAnswer, LeaseView, Pruned, QueueView, ReopenAnswer, SteerAnswer
from holdfast._core.audit import AuditNote
from holdfast._core.explanation import Explanation
from holdfast._core.job import PLACE_OF, Json, NewJob, Place, State
from holdfast._core.payload import decode_json, encode_signal
from holdfast._core.queue_counts import in_every_state
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter, Steer, SteerVerb
from holdfast._core.steps import MOST_SIGNALS, Signal, SignalAnswer, usable
from holdfast._core.view import AttemptView, JobView
from holdfast._engine.client.acting import named
from holdfast._engine.client.announcement import announce
from holdfast._engine.client.conflicts import require_no_conflict
from holdfast._engine.client.following import Following
from holdfast._engine.client.group_commit import GroupCommit
from holdfast._engine.client.operator_calls import BATCH as BATCH
from holdfast._engine.client.operator_calls import OperatorCalls
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.retry import GIVE_UP, Retrier
from holdfast._engine.store_defaults import steer, steps, worker_history
from holdfast._ports.store import Store
from holdfast._ports.transport import Hint
from holdfast.errors import JobCancelled, JobFailed, JobNotFound, PayloadTooLarge, StoreBusy

RESULT_PAUSES = (0.005, 0.25)
HINTED = 64
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALL = EnqueueAnswer()
MOVABLE = (State.AVAILABLE, State.SCHEDULED, State.BLOCKED)

ACTIONS = {
    SteerVerb.CANCEL: "cancel",
    SteerVerb.REOPEN: "retry",
    SteerVerb.RESCHEDULE: "reschedule",
    SteerVerb.DELETE: "delete",
}
"""The names of the verbs in the record of what operators did."""
SELECTED = {
    SteerVerb.CANCEL: EventName.JOBS_CANCELLED,
    SteerVerb.REOPEN: EventName.JOBS_RETRIED,
    SteerVerb.RESCHEDULE: EventName.JOBS_RESCHEDULED,
    SteerVerb.DELETE: EventName.JOBS_DELETED,
}

States = dict[UUID, State]
Answer = TypeVar("Answer")


class Client(OperatorCalls):
    """Calls one store from one event loop. Concurrent enqueues share commits, except those with a unique key."""

    def __init__(self, environment: Environment, *, give_up: float = GIVE_UP) -> None:
        retrier = Retrier(environment.clock, environment.chance, environment.events, give_up=give_up)
        super().__init__(environment, retrier)
        self._transport, self._clock = environment.transport, environment.clock
        self._commits = GroupCommit(environment, self._retry)
        self.following = Following(self.get, environment.clock)

    async def enqueue(self, jobs: Sequence[NewJob], *, is_shared: bool = True) -> EnqueueAnswer:
        """Write all jobs durably, or none. Raises ``StoreUnavailable`` after ``give_up`` seconds: they may or may not be there.

        Raises ``UniqueConflict`` if a job with another payload has one of the keys. If the caller is cancelled while the write
        is under way, its jobs may still be written. The jobs of other callers in the same commit are not affected; without
        ``is_shared`` they have a separate commit, beside others that are under way.
        """
        if not jobs:
            return EnqueueAnswer()
        if is_shared and not [job for job in jobs if job.unique_key is not None]:
            await self._commits.add(jobs)
            return _ALL
        answer = await self._commits.write(jobs)  # of its jobs only: another caller's conflict must not undo this one
        require_no_conflict(jobs, answer)
        return answer

    async def get(self, job: UUID) -> JobView:
        """Return the job with its attempts; ``JobNotFound``."""
        return JobView.of(await self._record(job))

    async def list(self, which: JobFilter) -> "list[JobView]":
        """Return matching jobs, newest first, without attempts."""
        return [JobView.of(record) for record in await self.page(which)]

    async def page(self, which: JobFilter) -> Sequence[JobRecord]:
        """Return matching jobs, newest first, as the store has them."""
        return await self._retry("list", lambda: self._store.list(which))

    async def states(self, which: JobFilter, limit: int | None) -> States:
        """Return the matching jobs, newest first, read in pages: a selector for verbs that take many."""
        found: States = {}
        which = structs.replace(which, limit=BATCH)
        while limit is None or len(found) < limit:
            page = await self.page(which)
            found |= {record.id: record.state for record in page}
            if len(page) < which.limit:
                break
            which = structs.replace(which, before=page[-1].id)
        return dict(islice(found.items(), limit))

    async def counts(self, by: Literal["queue", "task"] | None, most: int | None = None) -> dict[str, dict[str, int]]:
        """Count jobs by group and state, all nine states with zeros; the group is ``""`` without ``by``."""
        found = await self._retry("counts", lambda: self._store.counts(by, most))
        groups = dict.fromkeys([""] if by is None else sorted({group for group, _ in found}))
        return {group: {state.value: found.get((group, state), 0) for state in State} for group in groups}

    async def ask(self, operation: str, act: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Return what ``act`` reads from the store; it is asked again while the store is away."""
        return await self._retry(operation, partial(act, self._store))

    async def workers(self) -> Sequence[LeaseView]:
        """Return the workers whose lease has not ended, oldest first."""
        return await self._retry("workers", self._store.workers)

    async def worker_history(self, worker: str, limit: int) -> Sequence[BeatView]:
        """Return the last notes on a worker, newest first."""
        return await self._retry("worker_history", partial(worker_history, self._store, worker, limit))

    async def explain(self, job: UUID) -> Explanation:
        """Explain why the job is in its state; ``JobNotFound``."""
        from holdfast._engine.client.explaining import explained

        record = await self._record(job)
        return await self._retry("explain", partial(explained, self._store, record, self.now()))

    def now(self) -> datetime:
        """Return the time on this machine's clock, for people."""
        return EPOCH + timedelta(seconds=self._clock.wall())

    async def cancel(self, jobs: Sequence[UUID]) -> States:
        """End waiting jobs and flag running ones; return the state each is in now, absent if unknown."""

        return await self._each("request_cancel", jobs, self._store.request_cancel, self._report_cancelled)

    async def signal(self, job: UUID, name: str, value: Json) -> bool:
        """Send a signal to a job, and wake a worker for it; return whether the job may still consume it. ``JobNotFound``."""
        signal = Signal(self._environment.chance.uuid4(), usable("signal", name), encode_signal(name, value))
        match await self._retry("signal", partial(steps(self._store).signal, job, signal)):
            case SignalAnswer.ACCEPTED:
                self._events.emit(EventName.JOB_SIGNALLED, job=job, signal=name)
                await self._publish_ids([job])
                return True
            case SignalAnswer.REFUSED:
                return False
            case SignalAnswer.FULL:
                most = f"job {job} has {MOST_SIGNALS:,} signals that it has not consumed"
                raise PayloadTooLarge(f"{most}: wait until it asks for them, or send several values in one signal")
            case SignalAnswer.MISSING:
                raise JobNotFound(f"no job has the id {job}: it never existed here, or its retention has passed")

    async def job_with_key(self, task: str, unique_key: str) -> UUID:
        """Return the unfinished job of a task that has a unique key; ``JobNotFound``."""
        job = await self._retry("job_with_key", partial(steps(self._store).job_with_key, task, unique_key))
        if job is None:
            raise JobNotFound(f"no unfinished job of the task {task} has the unique key {unique_key!r}")
        return job

    async def retry(self, jobs: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        """Run finished, held and scheduled jobs now, with fresh budgets; also return which jobs have the keys of those that could not."""
        taken: dict[UUID, UUID] = {}

        async def reopen(some: Sequence[UUID]) -> States:
            answer = await (self._store.reopen(some, is_fresh=True) if is_fresh else self._store.reopen(some))
            taken.update(answer.taken)
            return answer.states

        states = await self._each("reopen", jobs, reopen, partial(self._publish_moved, EventName.JOB_REOPENED))
        return ReopenAnswer(states, taken)

    async def reschedule(self, jobs: Sequence[UUID], *, delay: float, run_at: datetime | None) -> States:
        """Make waiting jobs due then; return the state each is in now, absent if unknown."""

        async def reschedule(some: Sequence[UUID]) -> States:
            return await self._store.reschedule(some, delay=delay, run_at=run_at)

        return await self._each("reschedule", jobs, reschedule, partial(self._publish_moved, EventName.JOB_RESCHEDULED))

    async def delete(self, jobs: Sequence[UUID]) -> States:
        """Delete every trace of jobs that no worker owns; return the states of the others."""

        return await self._each("delete", jobs, self._store.delete, partial(self._report_deleted, jobs))

    async def act(self, how: Steer, jobs: Sequence[UUID]) -> States:
        """Apply an operator's verb to these jobs, and record the action; return the state each is in now, absent if unknown."""
        by = self.note(ACTIONS[how.verb], named(jobs)) if jobs else None
        if by is not None:
            return (await self.steer(how, jobs, JobFilter(), by=by, is_by_id=True)).states
        match how.verb:
            case SteerVerb.CANCEL:
                return await self.cancel(jobs)
            case SteerVerb.REOPEN:
                return (await self.retry(jobs, is_fresh=how.is_fresh)).states
            case SteerVerb.RESCHEDULE:
                return await self.reschedule(jobs, delay=how.delay, run_at=how.run_at)
            case SteerVerb.DELETE:
                return await self.delete(jobs)

    async def steer(
        self, how: Steer, jobs: Sequence[UUID], which: JobFilter, *, by: AuditNote | None = None, is_by_id: bool = False
    ) -> SteerAnswer:
        """Apply an operator's verb to those of the jobs that match when they are written. ``is_by_id``: wait for jobs that are locked."""
        left, writes = set[UUID](), dict[tuple[UUID, ...], AuditNote | None]()
        reports: dict[SteerVerb, Callable[[States, frozenset[UUID]], Awaitable[None]]] = {
            SteerVerb.CANCEL: self._report_cancelled,
            SteerVerb.REOPEN: partial(self._publish_moved, EventName.JOB_REOPENED),
            SteerVerb.RESCHEDULE: partial(self._publish_moved, EventName.JOB_RESCHEDULED),
            SteerVerb.DELETE: partial(self._report_deleted, jobs),
        }

        async def apply(some: Sequence[UUID]) -> States:
            write = writes.setdefault(tuple(some), self.another_write(by))  # a copy of this write has the same id
            answer = await steer(self._store, how, some, which, by=write)
            locked = frozenset(answer.left & answer.states.keys()) if is_by_id else frozenset[UUID]()
            left.update(answer.left - locked)
            if locked:
                states = {job: state for job, state in answer.states.items() if job not in locked}
                raise StoreBusy(f"{how.verb}: {len(locked)} jobs are locked by other sessions", locked, states=states)
            return answer.states

        async def emit(states: States, locked: frozenset[UUID]) -> None:
            await reports[how.verb]({job: state for job, state in states.items() if job not in left}, locked | left)

        if by is not None and not jobs:
            await self._retry(how.verb, partial(apply, ()))
        return SteerAnswer(await self._each(how.verb, jobs, apply, emit), frozenset(left))

    def report_selected(self, verb: SteerVerb, jobs: int, refused: int) -> None:
        """Emit what a verb has done to the jobs of a selector: one event for all of them."""
        self._events.emit(SELECTED[verb], jobs=jobs, refused=refused)

    async def queues(self, most: int | None = None) -> tuple[QueueView, ...]:
        """Return the queues that have jobs, are paused or have settings, each with its jobs in every one of the nine states."""
        return in_every_state(await self._retry("queues", lambda: self._store.queues(most)), most)

    async def prune(self) -> Pruned:
        """Delete everything whose retention has passed, a batch at a time."""
        done = Pruned()
        while (some := await self._retry("prune", lambda: self._store.prune(BATCH))).total:
            done = Pruned(
                jobs=done.jobs + some.jobs,
                stubs=done.stubs + some.stubs,
                receipts=done.receipts + some.receipts,
                leases=done.leases + some.leases,
                attempts=done.attempts + some.attempts,
                beats=done.beats + some.beats,
            )
        self._events.emit(EventName.STORE_PRUNED, **structs.asdict(done))
        return done

    async def announce(self, written: Sequence[NewJob]) -> None:
        """Emit events for jobs that another writer has made durable, and wake idle workers."""
        await announce(self._environment, written)

    async def notify(self, queue: str) -> None:
        """Wake idle workers, for jobs that were written without this client."""
        await self._transport.publish([Hint(queue)])

    async def result(self, job: UUID, timeout: float | None, read: Callable[[bytes], Any] = decode_json) -> Json:
        """Wait for the job's end; return its result, or raise ``JobFailed``, ``JobCancelled``, ``JobNotFound`` or ``TimeoutError``.

        That of a workflow is the result of the member that its function returned.
        """
        started, pause = self._clock.monotonic(), RESULT_PAUSES[0]
        while True:
            record = await self._record(job)
            if PLACE_OF[record.state] is Place.FINISHED:
                if record.state is State.FAILED:
                    from holdfast._engine.client.explaining import with_cause

                    record = await self._retry("flow", partial(with_cause, self._store, record))
                result = _result(record)
                if record.member is not None and record.member.inputs and record.member.is_gate:
                    result = await self.output(job)
                return None if result is None else read(result)
            left = pause if timeout is None else started + timeout - self._clock.monotonic()
            if left <= 0:
                see = f"see `holdfast jobs explain {job}`"
                raise TimeoutError(f"job {job} is still {record.state.value} after {timeout:g} s: {see}")
            await self._clock.sleep(min(pause, left))
            pause = min(pause * 2, RESULT_PAUSES[1])

    async def _record(self, job: UUID) -> JobRecord:
        record = await self._retry("get", lambda: self._store.get(job))
        if record is None:
            raise JobNotFound(f"no job has the id {job}: it never existed here, or its retention has passed")
        return record

    async def _each(
        self,
        operation: str,
        jobs: Sequence[UUID],
        verb: Callable[[Sequence[UUID]], Awaitable[States]],
        emit: Callable[[States, frozenset[UUID]], Awaitable[None]],
    ) -> States:
        """Apply the verb to all jobs, a batch at a time, and report what has moved. ``StoreBusy`` names the locked jobs of all batches.

        The verb is never sent again for a job whose write succeeded: a job that was retried may have run to its end by then.
        """
        states: States = {}
        busy: StoreBusy | None = None
        locked = frozenset[UUID]()
        left: Sequence[UUID] = ()

        async def ask() -> None:
            nonlocal left
            try:
                states.update(await verb(left))
            except StoreBusy as error:
                if error.jobs:
                    states.update(error.states)
                    left = [job for job in left if job in error.jobs]
                raise

        for start in range(0, len(jobs), BATCH):
            left = jobs[start : start + BATCH]
            try:
                await self._retry(operation, ask)
            except StoreBusy as error:
                if not error.jobs:
                    raise
                locked |= error.jobs
                busy = StoreBusy(str(error), locked)
        report_flows(self._store, self._events)
        await emit(states, locked)
        if busy is not None:
            busy.states = states
            raise busy
        return states

    async def _report_cancelled(self, states: States, _: frozenset[UUID]) -> None:
        for job, state in states.items():
            self._events.emit(EventName.JOB_CANCEL_REQUESTED, job=job, state=state.value)
        active = [job for job, state in states.items() if PLACE_OF[state] is Place.ACTIVE]
        blocked = [job for job, state in states.items() if state is State.BLOCKED]
        await self._publish_ids([*active, *await self.active_members(blocked)])

    async def _report_deleted(self, jobs: Sequence[UUID], states: States, left: frozenset[UUID]) -> None:
        for job in dict.fromkeys(jobs):
            if job not in states and job not in left:
                self._events.emit(EventName.JOB_DELETED, job=job)

    async def _publish_moved(self, event: EventName, states: States, _: frozenset[UUID]) -> None:
        moved = [job for job, state in states.items() if state in MOVABLE]
        for job in moved:
            self._events.emit(event, job=job, state=states[job].value)
        await self._publish_ids(moved)

    async def _publish_ids(self, jobs: Iterable[UUID]) -> None:
        ids = tuple(jobs)
        if ids:
            await self._transport.publish([Hint(ids=ids[n : n + HINTED]) for n in range(0, len(ids), HINTED)])


def _result(record: JobRecord) -> bytes | None:
    if record.is_stub:
        raise JobNotFound(f"job {record.id} {record.state.value}, and its retention has passed: a longer one keeps results")
    match record.state:
        case State.COMPLETED:
            return record.result
        case State.CANCELLED:
            why = record.error.message if record.error else record.reason
            raise JobCancelled(f"job {record.id} was cancelled: {why}")
        case _:
            attempts = tuple(AttemptView.of(attempt) for attempt in record.attempts)
            raise JobFailed(record.reason or "", record.error, attempts)
