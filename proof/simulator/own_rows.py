"""Handlers that write users' rows in ``job.transaction(within=…)``, on their own connection to the file of the jobs.

The block has the lock of the file from its entry to its commit. A process that is stopped before its block may lose the job. One that
is stopped inside of it stops all writers, and its block is rolled back if that takes too long.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

from msgspec import structs

from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast.databases.sqlite import driver
from proof.checker.history import OWN_ROWS as BOOKINGS
from proof.simulator.loop import Process
from proof.simulator.plans import Mode, Plan
from proof.simulator.profiles import Brand
from proof.simulator.programs import _BACKOFF, Scene, _written
from proof.simulator.threads import _as_def, threaded
from proof.stores.own_connections import insert
from proof.stores.real_sqlite import SqliteFile

SHARE = 0.4  # of the worlds in which a stopped process may keep the lock of the file
INSIDE = 0.5  # steps of ordinary length for which a block waits
TRIES = 50  # of a block whose first statement meets the lock of another process


class OwnRows:
    """The rows that the handlers of one process write."""

    def __init__(self, file: SqliteFile, process: Process) -> None:
        self._file, self._process = file, process

    def connect(self) -> Any:
        """Open a connection to the file of the jobs."""
        return self._file.own.open(self._process)

    def note(self) -> None:
        """Record what a block has just committed."""
        self._file.look_at(self._process.name, "transaction_within")


async def booking(job: Job) -> str:
    """Write a user's row, in one transaction with the check of its token."""
    async with _written(job) as scene:
        connection, pause = scene.rows.connect(), 20.0
        for _ in range(TRIES):
            try:
                await _book(scene, job, connection, pause)
                break
            except Exception as error:
                if not driver.is_error(error) or "locked" not in str(error):
                    raise
                pause = 1.0
            finally:
                scene.rows.note()
        await _hesitate(scene, 2)
        return scene.done(job)


async def _book(scene: Scene, job: Job, connection: Any, pause: float) -> None:
    """Run one block, in one moment or with pauses before and after its row."""
    with ExitStack() as stack:

        def enter() -> None:
            # The block of a ``def`` handler, because a process that was stopped goes on at once, and not by its event loop.
            stack.enter_context(SyncJob.transaction(job, within=connection))  # type: ignore[arg-type]

        def write() -> None:
            insert(connection, job.id, job.attempt, job.token)

        steps = [enter, write, stack.close]
        at_once = 1 if scene.chance.random() < 0.5 else 3 if scene.chance.random() < 0.7 else 2
        while steps:
            await _hesitate(scene, pause, steps[:at_once])
            del steps[:at_once]
            at_once, pause = 2, INSIDE


async def _hesitate(scene: Scene, most: float, then: Sequence[Callable[[], None]] = ()) -> None:
    """Wait for some time, and sometimes compute for longer, or die. Then do something, in the moment in which the wait ends."""
    lot = scene.chance.random()
    if scene.is_rough and lot < 0.03:
        await scene.crash()
    if scene.is_rough and lot < 0.1:
        await scene.block(scene.chance.random() * 3 * scene.pace)
    done = scene._loop.create_future()
    timer = scene._loop.call_later(scene.chance.random() * most * scene.pace, _do, then, done)
    try:
        await done
    finally:
        timer.cancel()


def _do(steps: Sequence[Callable[[], None]], done: "asyncio.Future[None]") -> None:
    try:
        for step in steps:
            step()
    except BaseException as error:  # such as JobLost
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(None)


@cache
def _writing() -> dict[str, TaskDefinition]:
    task = partial(define, max_attempts=4, backoff=_BACKOFF)
    return {"booking": task(booking), "thread_booking": task(_as_def(booking), name="thread_booking")}


def with_own_rows(plan: Plan) -> Plan:
    """Return the plan with handlers that write users' rows, in some of the worlds on a real file."""
    if plan.brand is not Brand.SQLITE or plan.mode not in (Mode.SAFETY, Mode.BEYOND):
        return plan
    is_drawn = random.Random(f"own rows {plan.chaos}").random() < SHARE
    return structs.replace(plan, tasks=(*plan.tasks, *BOOKINGS)) if is_drawn else plan


def tasks_beside(ttl: float, plan: Plan) -> dict[str, TaskDefinition]:
    """Return the tasks of threads and runner processes, and those that write users' rows where the plan has them."""
    return threaded(ttl) | (_writing() if not {*BOOKINGS}.isdisjoint(plan.tasks) else {})
