"""The engine with one missing guard in workers and clients, as context managers."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.book import indexes as book_indexes
from holdfast._core.job import ActiveJob, Claim, NewJob
from holdfast._core.lifecycle import Transition
from holdfast._core.outcome import Outcome
from holdfast._core.requests import ClaimRequest
from holdfast._engine.client.group_commit import GroupCommit
from holdfast._engine.runners.pool import RunnerPool
from holdfast._engine.runners.running import Running, Stop
from holdfast._engine.runners.thread_tasks import ThreadTasks
from holdfast._engine.service import Service, yield_to_loop
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.own_looks import OwnLooks
from holdfast._engine.worker.prefetch import Prefetch
from holdfast._engine.worker.rescue_hooks import RescueHooks
from holdfast._engine.worker.undelivered import OutcomeBackup
from holdfast.errors import StoreUnavailable
from tests.simulation.patching import patched

NEVER = 1e9


def late_starts() -> Any:
    """A worker starts claimed jobs, whether or not its deadline has passed."""
    take, execute = Exchange._take, Executor._execute

    def start(self: Exchange, claims: Sequence[Claim], request: ClaimRequest) -> None:
        with patched(self._lease, may_act=lambda: True):
            take(self, claims, request)

    async def run(self: Executor, running: Running) -> None:
        with patched(self._lease, may_act=lambda: True):
            await execute(self, running)

    @contextmanager
    def both() -> Iterator[None]:
        with patched(Exchange, _take=start), patched(Executor, _execute=run):
            yield

    return both()


def second_attempt_beside_first() -> Any:
    """An attempt starts in a worker in which code of an earlier one still runs."""

    def take(self: Exchange, claims: Sequence[Claim], request: ClaimRequest) -> None:
        for claim in claims:
            self._executor.start(claim)

    return patched(Exchange, _take=take)


def starts_during_a_lost_claim() -> Any:
    """A worker claims and starts jobs by their numbers while it does not know which jobs a lost claim has given it."""

    def choose(self: Prefetch) -> None:
        if not self._starting:
            self._starting, self._waiting = self._waiting, deque()

    def doubt(self: Prefetch) -> None:
        del self

    return patched(Prefetch, _choose=choose, doubt=doubt)


def one_claim_id() -> Any:
    """A worker gives all its claims the same id."""
    request = Exchange._request

    def again(self: Exchange, batch: Sequence[FinishedRun]) -> ClaimRequest | None:
        asked = request(self, batch)
        return asked and structs.replace(asked, claim=self._lease.id)

    return patched(Exchange, _request=again)


@contextmanager
def only_deliveries() -> Iterator[None]:
    """A worker never looks for jobs that no queue delivers."""

    def request(self: Exchange, batch: Sequence[FinishedRun]) -> ClaimRequest | None:
        asked = _request(self, batch)
        return asked if asked is None or asked.ids is not None else None

    def deliveries(self: OwnLooks, most: int) -> Any:
        return {} if self._inbox is None else self._inbox.next(most)

    _request = Exchange._request
    with patched(Exchange, _request=request), patched(OwnLooks, deliveries=deliveries):
        yield


def no_audit() -> Any:
    """A worker makes no audit after a claim without an answer."""

    async def audit(self: Exchange) -> None:
        self._needs_audit = False

    return patched(Exchange, audit=audit)


def no_polling() -> Any:
    """A hint is the only thing that wakes a worker."""
    pause = Exchange._pause

    async def wait(self: Exchange, request: ClaimRequest | None, *, claimed: int) -> float:
        seconds = await pause(self, request, claimed=claimed)
        return 100 * seconds if claimed == 0 else seconds

    return patched(Exchange, _pause=wait)


def dropped_results() -> Any:
    """An outcome that the store did not answer is not sent again."""
    exchange = Exchange._exchange

    async def once(self: Exchange, batch: Any, request: ClaimRequest | None) -> int:
        try:
            return await exchange(self, batch, request)
        except StoreUnavailable:
            del self._ended[: len(batch)]
            raise

    return patched(Exchange, _exchange=once)


def ended_in_exchange_dropped() -> Any:
    """Jobs that end during an exchange count as settled by it."""
    settle = Exchange._settle

    def forget(self: Exchange, batch: Sequence[FinishedRun], answers: Sequence[Answer]) -> None:
        settle(self, batch, answers)
        self._ended.clear()
        self._executor.finished.take()

    return patched(Exchange, _settle=forget)


@contextmanager
def leaves_undelivered() -> Iterator[None]:
    """A draining worker neither waits for the store to receive its outcomes nor sends them to its supervisor."""
    with patched(Exchange, is_delivered=property(lambda self: True)), patched(OutcomeBackup, send=lambda self, outcomes: None):
        yield


def settle_before_stop() -> Any:
    """A job is released when its code is asked to stop, not when it has stopped."""
    stop = Executor.stop

    def stop_early(self: Executor, job: UUID, why: Stop, **given: Any) -> None:
        running = self.running.get(job)
        if running is not None and running.stop is None:
            self._reports.stopped(running.claim.job)
            self.finished.add(FinishedRun(running.claim, lifecycle.release(running.claim.job, code_ran=True)))
        stop(self, job, why, **given)

    return patched(Executor, stop=stop_early)


@contextmanager
def threads_left_behind() -> Iterator[None]:
    """A worker that asks a handler in a thread to stop does not wait for its end."""

    withdraw, ended = ThreadTasks.withdraw, Executor._ended

    def hasty(self: ThreadTasks, running: Running) -> bool:
        if not withdraw(self, running) and running.in_thread is not None:
            self.calls.ended(running, None)
        return running.in_thread is not None

    def once(self: Executor, running: Running, outcome: Outcome | None) -> None:
        if running.claim.job.id in self.running:
            ended(self, running, outcome)

    with patched(ThreadTasks, withdraw=hasty), patched(Executor, _ended=once):
        yield


def runners_left_behind() -> Any:
    """A worker that asks a handler in a runner to stop waits neither for its end nor for the end of the runner."""
    run = RunnerPool.run

    async def hasty(self: RunnerPool, running: Running) -> Outcome | None:
        waiting = asyncio.ensure_future(run(self, running))
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(waiting)

    return patched(RunnerPool, run=hasty)


def drain_costs() -> Any:
    """A job that a draining worker releases has spent an attempt."""
    release = lifecycle.release

    def charge(job: ActiveJob, *, code_ran: bool, unavailable: str | None = None) -> Transition:
        moved = release(job, code_ran=code_ran, unavailable=unavailable)
        return structs.replace(moved, failures=job.failures + 1) if code_ran else moved

    return patched(lifecycle, release=charge)


def interrupted_runs_again() -> Any:
    """Interrupted code runs again, also if its task does not allow that."""
    release = lifecycle.release
    return patched(
        lifecycle, release=lambda job, *, code_ran, unavailable=None: release(job, code_ran=False, unavailable=unavailable)
    )


def counting_what_never_ran() -> Any:
    """A claim whose code never ran counts as an attempt."""
    return patched(Transition, never_ran=property(lambda self: False))


def cancellation_ignored() -> Any:
    """A transition ignores that the cancellation of its job was requested."""
    return patched(Transition, with_cancellation=lambda self, *, cancel_requested, by=None: self)


def failures_free() -> Any:
    """A failed attempt is not counted."""
    failed = lifecycle._failed_attempt

    def forget(job: ActiveJob, *arguments: Any, **given: Any) -> Transition:
        return structs.replace(failed(job, *arguments, **given), failures=job.failures)

    return patched(lifecycle, _failed_attempt=forget)


def failures_without_end() -> Any:
    """A failed job is retried without a limit."""
    failed = lifecycle._failed_attempt

    def again(job: ActiveJob, *arguments: Any, **given: Any) -> Transition:
        patient = structs.replace(job.policy, max_attempts=1000)
        return failed(structs.replace(job, policy=patient), *arguments, **given)

    return patched(lifecycle, _failed_attempt=again)


def crashes_without_end() -> Any:
    """A crashed job is retried without a limit."""
    crashed = lifecycle._crashed

    def again(job: ActiveJob, **given: Any) -> Transition:
        patient = structs.replace(job.policy, max_crashes=1000)
        return crashed(structs.replace(job, policy=patient), **given)

    return patched(lifecycle, _crashed=again)


def no_backing_off() -> Any:
    """A service calls again at once after a failure."""
    return patched(Service, _pause=lambda self, failures: 0.005)


def fails_once() -> Any:
    """A service that has failed does nothing more."""

    async def run(self: Service) -> None:
        while True:
            try:
                wait = await self._step()
            except StoreUnavailable:
                await asyncio.get_running_loop().create_future()
            await (self.wake.wait(wait) if wait > 0 else yield_to_loop())

    return patched(Service, run=run)


def no_hook() -> Any:
    """The next attempt starts without the due hook of its job."""
    return patched(RescueHooks, is_owed=lambda self, claim: False)


def no_hook_of_ended_jobs() -> Any:
    """No worker looks for hooks of jobs that have ended."""

    async def step(self: RescueHooks) -> float:
        return NEVER

    return patched(RescueHooks, step=step)


def prune_owed_hooks() -> Any:
    """A job is pruned after its retention, also with a hook that is due."""
    return patched(book_indexes, retention_of=lambda row: row.policy.retention)


def call_per_copy() -> Any:
    """Each copy of an enqueue is a separate call."""

    async def write(self: GroupCommit, jobs: Sequence[NewJob]) -> EnqueueAnswer:
        store, chance = self._environment.store, self._environment.chance
        return await self._retry("enqueue", lambda: store.enqueue(chance.uuid4(), jobs))

    return patched(GroupCommit, write=write)


def starts_in_turn() -> Any:
    """A worker claims for all its slots, and runs one job after the other."""
    turns: WeakKeyDictionary[Executor, asyncio.Lock] = WeakKeyDictionary()
    execute = Executor._execute

    async def wait(self: Executor, running: Running) -> None:
        async with turns.setdefault(self, asyncio.Lock()):
            await execute(self, running)

    return patched(Executor, _execute=wait)


def late_code_goes_on() -> Any:
    """A worker past its deadline starts nothing, and leaves the end of running code to its guard."""
    stop_all = Executor.stop_all

    def stop(self: Executor, why: Stop) -> None:
        if why is not Stop.LATE:
            stop_all(self, why)

    return patched(Executor, stop_all=stop)
