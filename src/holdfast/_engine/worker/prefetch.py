"""Jobs that this worker has claimed ahead of its free slots: it starts many of them in one write.

A claimed job of which the store does not know yet that it starts is *waiting*; one whose start is written is *started*. Its code
begins once a slot is free. Jobs of one kind of handler begin in their order.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import Claim, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.policy import Policy
from holdfast._core.prefetch import UNSTARTED_LIMIT, Throughput
from holdfast._core.requests import ClaimRequest
from holdfast._engine.environment import Environment
from holdfast._engine.service import Signal
from holdfast._engine.store_defaults import prefetches, prefetching
from holdfast._engine.tasks.registry import RunnerKind
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.slots import Slots

Key = tuple[UUID, Token]
Aged = tuple[float, Claim]
"""A claim, and the time at which this worker received it."""


class AheadCalls(NamedTuple):
    """What jobs that are claimed ahead need of their worker.

    ``begin`` runs a job in a free slot, with the time at which it was claimed. ``audit`` compares the worker's jobs with the store's.
    ``may_start``: whether no answer of a claim is lost. ``ask_for_void`` asks the supervisor to void a claim whose answer is lost.
    """

    begin: Callable[[Claim, float], None]
    audit: Callable[[], None]
    may_start: Callable[[], bool]
    ask_for_void: Callable[[], None]


class Prefetch:
    """The jobs of one worker that are claimed and have no slot yet.

    A job is started by its number, which also starts all jobs with smaller ones, so the worker must know of all these. A claim whose answer
    is lost may land at any later time, unless it is voided.
    """

    def __init__(
        self,
        environment: Environment,
        executor: Executor,
        lease: WorkerLease,
        slots: Slots,
        options: WorkerOptions,
        calls: AheadCalls,
    ) -> None:
        self._slots, self._has_threads = slots, RunnerKind.THREAD in slots.kinds_ahead
        executor.freed, self.wake, self.pace = self.refill, Signal(), Throughput()
        self.is_on = options.can_prefetch and prefetches(environment.store, has_few_slots=slots.kinds_ahead != (RunnerKind.LOOP,))
        self._store, self._executor, self._lease, self._options = environment.store, executor, lease, options
        self._chance = environment.chance
        self._begin, self._audit, self._may_start, self._ask_for_void = calls
        self._waiting, self._starting = deque[Aged](), deque[Aged]()
        self._started = {kind: deque[Aged]() for kind in slots.kinds_ahead}
        self._returning = set[Key]()
        self._voids, self._is_in_doubt, self._measured = 0, False, lease.now()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._starting) + self._started_count()

    def __iter__(self) -> Iterator[Claim]:
        return (claim for _, claim in self._all())

    def keys(self) -> set[Key]:
        """Return the ids and tokens of all these jobs."""
        return {(claim.job.id, claim.job.token) for claim in self}

    def wanted(self) -> int:
        """Return how many jobs the next claim should ask for ahead."""
        options = self._options
        is_on = self.is_on and not self._is_in_doubt and self._slots.can_start
        ahead = self.pace.jobs_ahead(self._slots.size_ahead, options.prefetch_time, options.prefetch) if is_on else 0
        return max(0, ahead - len(self))

    def request(self, tasks: Mapping[str, Policy], cursor: Cursor) -> ClaimRequest | None:
        """Return a claim of jobs that start later; ``None`` if no more are wanted, or the lease may not act."""
        number = self.wanted()
        if not number or not self._lease.may_act():
            return None
        return ClaimRequest(
            lease=self._lease.id,
            claim=self._chance.uuid4(),
            tasks=tasks,
            limit=0,
            prefetch=number,
            queues=self._options.queues,
            cursor=cursor,
            voids=self._voids,
        )

    def measure(
        self, finished: int, sent: float, request: ClaimRequest | None, answer: ExchangeAnswer, *, is_narrow: bool
    ) -> bool:
        """Learn from an exchange that was sent at ``sent`` and settled ``finished`` jobs; return whether there may be more jobs to claim.

        ``is_narrow``: the claim left out kinds of jobs that may be claimed ahead, so a short one does not show that there are none.
        """
        now, asked = self._lease.now(), 0 if request is None else request.room
        is_full = len(answer.claims) >= asked or not answer.is_whole
        self.pace = self.pace.settled(finished, now - self._measured)
        self._measured = now
        if request is not None and (is_full or request.prefetch or not is_narrow):
            self.pace = self.pace.claimed(now - sent, is_full=is_full, has_keys=any(claim.key for claim in answer.claims))
        return is_full

    def add(self, claims: Iterable[Claim], voids: int | None) -> None:
        """Keep claimed jobs until slots are free for them; not those of a claim that was voided before its answer came."""
        if voids != self._voids:
            self._audit()
            return
        now = self._lease.now()
        self._waiting.extend((now, claim) for claim in claims)
        self.wake.set()

    def refill(self) -> None:
        """Begin started jobs in the free slots, and ask for the start of more once few are left."""
        for kind, started in self._started.items():
            while started and self._may_begin(kind, started[0][1]):
                claimed_at, claim = started.popleft()
                self._begin(claim, claimed_at)
        if self._waiting and not self._starting and self.pace.is_low(self._started_count()):
            self.wake.set()

    async def step(self) -> float:
        """Start the next jobs in one write, and return the seconds until the next step."""
        if not self._lease.may_act():
            self.return_all()
        self._return_old()
        self._choose()
        if claims := self._starting:
            sent = self._lease.now()
            is_landed = await prefetching(self._store).start_through(self._lease.id, claims[-1][1].job.token.number, self._voids)
            self._lease.store_answered()
            self.pace = self.pace.started(self._lease.now() - sent)
            if claims is self._starting and is_landed:  # else they were returned or forgotten in the meantime
                self._starting = deque()
                for at, claim in claims:
                    self._started[self._slots.kind_ahead(claim.job.task)].append((at, _begun(claim)))
            elif claims is self._starting:
                self.forget()
            self.refill()
        oldest = self._oldest()
        return 60.0 if oldest is None else max(0.001, oldest + UNSTARTED_LIMIT - self._lease.now())

    async def gather(self) -> None:
        """Wait for more outcomes while the slots have work: half as many exchanges beside jobs in processes that do nothing."""
        ended = len(self._executor.finished)
        if seconds := self.pace.gather_time(ended, len(self)):
            await Signal().wait(seconds)

    def doubt(self) -> None:
        """Claim and start nothing until the supervisor has voided a claim whose answer is lost."""
        self._is_in_doubt = True
        self._ask_for_void()

    def voided(self, voids: int) -> None:
        """Forget the jobs that were not started: the supervisor has returned them to their queues, and this is the number of voids."""
        if voids > self._voids:
            self._voids, self._is_in_doubt = voids, False
            self.forget()

    def forget(self) -> None:
        """Forget the jobs whose start is not written; an audit returns those that the store still records for this worker."""
        if self._waiting or self._starting:
            self._waiting, self._starting = deque(), deque()
            self._audit()

    def drop(self, lost: Collection[Key]) -> None:
        """Forget jobs that the store does not record for this worker any more."""
        for claims in (*self._started.values(), self._starting, self._waiting) if lost else ():
            kept = [each for each in claims if (each[1].job.id, each[1].job.token) not in lost]
            claims.clear()
            claims.extend(kept)

    def return_job(self, job: UUID) -> None:
        """Return a job to its queue, or end it if that is what was asked."""
        for at, claim in self._all():
            if claim.job.id == job:
                self.drop({(job, claim.job.token)})
                self._return([(at, claim)])
                return

    def close(self) -> None:
        """Return all jobs to their queues; forget them if the lease is lost, and with it the right to return them."""
        if self._lease.is_gone:
            self.drop(self.keys())
        self.return_all()

    def return_all(self) -> None:
        """Return all jobs to their queues."""
        if self._has_threads and not self._lease.is_gone:
            self._executor.return_unbegun(max(0, self._slots.free_ahead(RunnerKind.THREAD)))
        claims = list(self._all())
        self._starting, self._waiting = deque(), deque()
        for started in self._started.values():
            started.clear()
        self._return(claims)

    def are_returning(self, jobs: Iterable[Key]) -> None:
        """Start nothing until the store has answered that these jobs are back in their queues."""
        self._returning.update(jobs)

    def has_returned(self, jobs: Iterable[Key]) -> None:
        """Record that the store has answered about these jobs."""
        if self._returning:
            self._returning.difference_update(jobs)
            self.wake.set()

    def _all(self) -> Iterator[Aged]:
        return chain(*self._started.values(), self._starting, self._waiting)

    def _unbegun(self) -> int:
        """Return how many started jobs wait for a thread, which takes them without the event loop."""
        return self._executor.unbegun if self._has_threads else 0

    def _started_count(self) -> int:
        return sum(map(len, self._started.values())) + self._unbegun()

    def _may_begin(self, kind: RunnerKind, claim: Claim) -> bool:
        if kind is RunnerKind.THREAD and self._executor.threads_take(claim):
            return True
        return self._slots.free_ahead(kind) > 0 and self._slots.can_start

    def _oldest(self) -> float | None:
        """Return when the first of these jobs was claimed, those that wait for a thread included."""
        first = [each[0][0] for each in (*self._started.values(), self._starting, self._waiting) if each]
        unbegun = self._executor.unbegun_since() if self._unbegun() else None
        return min([*first, *(() if unbegun is None else (unbegun,))], default=None)

    def _free(self) -> int:
        """Return how many of the waiting jobs, in their order, find a free slot at once."""
        free = {kind: self._slots.free_ahead(kind) - len(started) for kind, started in self._started.items()}
        if self._has_threads:
            free[RunnerKind.THREAD] -= self._unbegun()
        for number, (_, claim) in enumerate(self._waiting):
            free[kind := self._slots.kind_ahead(claim.job.task)] -= 1
            if free[kind] < 0:
                return number
        return len(self._waiting)

    def _choose(self) -> None:
        """Choose the jobs that the next write starts, unless those of the last one are still unanswered."""
        if self._starting or not self._waiting or self._returning or self._is_in_doubt or not self._may_start():
            return
        policies = (claim.job.policy for _, claim in self._waiting)
        number = self.pace.jobs_to_start(policies, free=self._free(), started=self._started_count())
        self._starting = deque(self._waiting.popleft() for _ in range(number))

    def _return_old(self) -> None:
        """Return the jobs that have waited for too long: other workers may have free slots."""
        oldest = self._oldest()
        if oldest is not None and self._lease.now() - oldest >= UNSTARTED_LIMIT:
            self.pace = self.pace.ended()
            self.return_all()

    def _return(self, claims: Collection[Aged]) -> None:
        self.are_returning((claim.job.id, claim.job.token) for _, claim in claims)
        for _, claim in claims:
            self._executor.finished.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False)))


def _begun(claim: Claim) -> Claim:
    job = claim.job
    return structs.replace(claim, job=structs.replace(job, state=State.RUNNING, attempt=job.attempt + 1))
