"""Return the jobs that a worker has claimed and does not start, because its event loop is blocked.

The worker lives, so its lease is renewed, and it keeps the jobs whose code has begun. Jobs without a slot run elsewhere sooner. First
a void takes its right to start them, then they move, then the worker receives the number of the void: only from then on can it start
jobs that it claims later.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from holdfast._core import lifecycle
from holdfast._core.answers import Answer
from holdfast._core.attempt_line import rescued_line
from holdfast._core.job import ActiveJob, State
from holdfast._core.lifecycle import Transition
from holdfast._engine import messages
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.store_defaults import prefetches, prefetching
from holdfast._engine.supervisor.recovery import hints_of_rescued
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast.settings import Settings

REASON = "not_started"
JOBS_PER_MOVE = 100
SHORTEST_PAUSE = 0.05


class Voiding:
    """The step that voids the claims of workers whose event loops have answered no ping for ``claimed_within``."""

    def __init__(self, environment: Environment, settings: Settings, workers: Callable[[], Sequence[WorkerHandle]]) -> None:
        self.is_needed = prefetches(environment.store, has_few_slots=True)
        self._store, self._events = environment.store, environment.events
        self._publish = environment.transport.publish
        self._within, self._timeout = settings.void_after, settings.timing.ttl
        self._is_off, self._workers = "claimed" in settings.recovery.off, workers

    async def step(self) -> float:
        """Return the claimed jobs of each blocked worker. Return the seconds until the next one may be blocked for long enough.

        The failure for one worker does not delay the others.
        """
        errors, waits = list[Exception](), [self._within]
        for worker in self._workers():
            if worker.seconds_until_void(self._within) <= 0:
                try:
                    async with asyncio.timeout(self._timeout):
                        await (self._report(worker) if self._is_off else self._void(worker))
                except Exception as error:
                    errors.append(error)
            waits.append(worker.seconds_until_void(self._within))
        if errors:
            raise errors[0]
        return max(SHORTEST_PAUSE, min(waits))

    async def _void(self, worker: WorkerHandle) -> None:
        """Void the worker's claims and return its jobs.

        After a failure the next step does so under the next number: a move of this step that lands late then changes nothing.
        """
        assert worker.lease is not None
        voids = worker.next_void()
        if await prefetching(self._store).void(worker.lease.id, voids) is not None:
            moves = [(job, lifecycle.voided(job, voids)) for job in await self._claimed(worker)]
            moved = list[tuple[ActiveJob, Transition]]()
            for start in range(0, len(moves), JOBS_PER_MOVE):
                some = moves[start : start + JOBS_PER_MOVE]
                answers = (await self._store.exchange([move for _, move in some])).answers
                if any(move.has_flow for _, move in some):
                    report_flows(self._store, self._events)
                moved += [each for each, answer in zip(some, answers, strict=True) if answer is Answer.APPLIED]
            worker.send(messages.ClaimsVoided(voids))
            worker.claims_voided()
            await self._announce(worker, moved)

    async def _report(self, worker: WorkerHandle) -> None:
        """Report the jobs that are left with the worker, because their kind is not recovered."""
        if claimed := await self._claimed(worker):
            self._events.emit(EventName.RECOVERY_SKIPPED, claimed=len(claimed))
        worker.claims_voided()

    async def _claimed(self, worker: WorkerHandle) -> list[ActiveJob]:
        assert worker.lease is not None
        return [job for job in await self._store.held(worker.lease.id) if job.state is State.CLAIMED]

    async def _announce(self, worker: WorkerHandle, moved: Sequence[tuple[ActiveJob, Transition]]) -> None:
        for job, move in moved:
            fields = {"task": job.task, "attempt": job.attempt, "worker": worker.name, "crashes": job.crashes}
            sentence = rescued_line(job, move, move.to, worker.name, REASON)
            fields |= {"reason": REASON, "to": move.to.value, "fraction": None, "delay": None, "recovery": "store"}
            self._events.emit_as(sentence, EventName.JOB_RESCUED, job=job.id, **fields)
        if moved:
            by_task = dict(Counter(job.task for job, _ in moved))
            counts = {"jobs": len(moved), "by_reason": {REASON: len(moved)}, "by_task": by_task}
            self._events.emit(EventName.RECOVERY_COMPLETED, worker=worker.name, reason=REASON, **counts)
            await self._publish(hints_of_rescued((job, move, REASON) for job, move in moved))
