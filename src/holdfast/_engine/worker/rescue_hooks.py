"""``on_rescue``: the user's function that repairs the user's rows, before the next attempt or, if none follows, without one.

The hook's transaction clears the hook's due time together with its writes to the user's rows. A second worker finds no hook due
and does nothing; after a crash before the commit the hook is still due, and runs again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from holdfast._core.job import Claim, State, Token
from holdfast._core.record import JobRecord
from holdfast._core.view import RescuedJob
from holdfast._engine import store_defaults
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.runners.forked import exits_in_forked_child
from holdfast._engine.runners.outcomes import captured
from holdfast._engine.service import is_cancelled
from holdfast._engine.tasks.registry import Registry, TaskDefinition
from holdfast._engine.worker.lease import WorkerLease
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError, JobLost
from holdfast.settings import Settings

HOOKS_PER_STEP = 10


class RescueHooks:
    """The ``on_rescue`` functions of one worker's tasks.

    A hook may take a ``margin`` of the lease, like ``job.transaction``. A hook without an attempt that fails is due again
    after a ``ttl`` at first, and later each time.
    """

    def __init__(
        self,
        environment: Environment,
        registry: Registry,
        settings: Settings,
        lease: WorkerLease,
        *,
        threads: int,
        may_start: Callable[[], bool],
    ) -> None:
        self._store, self._events, self._lease = environment.store, environment.events, lease
        self._idle, self._pause, self.interval = settings.timing.margin, settings.timing.ttl, settings.recovery_interval
        self._may_start = may_start
        tasks = (registry.get(name) for name in registry.names())
        self._tasks = {task.name: task for task in tasks if task is not None and task.on_rescue is not None}
        self._running: dict[UUID, float] = {}
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="holdfast-handler-hook")
        self.is_idle = not self._tasks

    @property
    def has_hooks(self) -> bool:
        """Whether any task has a hook."""
        return bool(self._tasks)

    def is_owed(self, claim: Claim) -> bool:
        """Return whether the hook must run before this attempt."""
        return claim.hook_due_at is not None and claim.rescue is not None and claim.job.task in self._tasks

    async def run_before_attempt(self, claim: Claim) -> None:
        """Run the hook; return once its transaction has committed. Raises what the hook raises, and ``JobLost``.

        If cancelled while the hook runs, it returns only after the hook's code has stopped.
        """
        if claim.hook_due_at is not None and claim.rescue is not None:
            job = RescuedJob.of_claim(claim, claim.rescue)
            await self._run(self._tasks[job.task], job, claim.job.token, claim.hook_due_at)

    async def step(self) -> float:
        """Run due hooks of jobs that ended instead of being retried; return the seconds until the next look."""
        owing: tuple[JobRecord, ...] = ()
        if self._may_start():
            owing = await store_defaults.owed_hooks(self._store, tuple(self._tasks), HOOKS_PER_STEP, pause=self._pause)
        for record in owing:
            if self._may_start():
                await self._run_for_finished(record)
        self.is_idle = not owing
        if owing:
            return 0.0
        return self.interval

    def has_been_idle(self) -> bool:
        """Return whether the last ``step`` found no hook due; false if no step ran since the previous call. Always true without hooks."""
        was_idle, self.is_idle = self.is_idle, not self._tasks
        return was_idle

    def unresponsive(self, seconds: float) -> tuple[UUID, ...]:
        """Return the jobs whose hook still runs more than ``patience`` seconds after it was rolled back."""
        by = self._lease.now() - self._idle - seconds
        return tuple(job for job, since in self._running.items() if since < by)

    def close(self) -> None:
        """Start no more hooks; do not wait for those in threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_for_finished(self, record: JobRecord) -> None:
        """Run the hook of a job that has ended; an error of it is already reported, and the hook is tried again later."""
        if record.rescue is None or record.hook_due_at is None:
            return
        job = RescuedJob.of_record(record, record.rescue)
        try:
            await self._run(self._tasks[job.task], job, record.token, record.hook_due_at)
        except BaseException:
            if is_cancelled():
                raise

    async def _run(self, task: TaskDefinition, job: RescuedJob, token: Token, hook_due_at: datetime) -> None:
        hook, fields = task.on_rescue, {"job": job.id, "task": job.task, "attempt": job.attempt, "worker": self._lease.worker}
        assert hook is not None
        self._running[job.id] = self._lease.now()
        try:
            await (self._in_loop if task.is_async else self._in_thread)(hook, job, token, hook_due_at)
        except (JobLost, asyncio.CancelledError):
            raise  # the job has another owner, or the hook was cancelled: it has not failed
        except BaseException as error:
            self._events.emit(EventName.JOB_RESCUE_HOOK_FAILED, **fields, reason=job.reason, error=type(error).__name__)
            raise
        finally:
            del self._running[job.id]
        self._events.emit(EventName.JOB_RESCUE_HOOK_COMPLETED, **fields, reason=job.reason)

    async def _in_loop(self, hook: Callable[..., Any], job: RescuedJob, token: Token, hook_due_at: datetime) -> None:
        async with store_defaults.transaction(self._store, job.id, token, idle=self._idle, hook_due_at=hook_due_at) as connection:
            limit = asyncio.timeout(self._idle)
            try:
                async with limit:
                    with exits_in_forked_child():
                        await hook(connection, job)
            except TimeoutError as error:
                if limit.expired():
                    raise HoldfastError(f"on_rescue took longer than {self._idle:g} s and was rolled back") from error
                raise

    async def _in_thread(self, hook: Callable[..., Any], job: RescuedJob, token: Token, hook_due_at: datetime) -> None:
        def run() -> None:
            transaction = store_defaults.blocking_transaction(
                self._store, job.id, token, idle=self._idle, hook_due_at=hook_due_at
            )
            with transaction as connection, exits_in_forked_child():
                hook(connection, job)

        call = partial(copy_context().run, captured, run)
        ended = asyncio.get_running_loop().run_in_executor(self._threads, call)
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError:
                if job.state is not State.RUNNING:
                    raise  # no attempt waits for it; its thread commits only if the hook is still due
        _, error = ended.result()
        if error is not None:
            raise error


def problems_of_hooks(registry: Registry, store: Store) -> list[str]:
    """Return a problem for each task with a hook if this store cannot run hooks."""
    if store_defaults.has_hooks(store):
        return []
    return [
        f"task {name}: on_rescue writes your rows in a transaction of the store's database, and the {store.capabilities.name} store has "
        "none: use a store such as sqlite:///jobs.db, or leave on_rescue out"
        for name in registry.names()
        if (task := registry.get(name)) is not None and task.on_rescue is not None
    ]
