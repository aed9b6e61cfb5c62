"""Handlers that write users' rows in ``job.transaction(within=…)``, on their own connection to the file of the jobs.

The block has the lock of the file from its entry to its commit. A process that is stopped before its block may lose the job. One that
is stopped inside of it stops all writers, and its block is rolled back if that takes too long.
"""

import random
from functools import cache
from typing import Any

from msgspec import structs

from holdfast._engine.tasks.context import Job
from holdfast._engine.tasks.registry import TaskDefinition, define
from holdfast.databases.sqlite import driver
from proof.simulator.loop import Process
from proof.simulator.plans import Mode, Plan
from proof.simulator.profiles import Brand
from proof.simulator.programs import _BACKOFF, Scene, _written
from proof.simulator.threads import threaded
from proof.stores.own_connections import insert
from proof.stores.real_sqlite import SqliteFile

SHARE = 0.4  # of the worlds in which a stopped process may keep the lock of the file
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
        await _hesitate(scene, 20)
        connection = scene.rows.connect()
        for _ in range(TRIES):
            try:
                await _book(scene, job, connection)
                break
            except Exception as error:
                if not driver.is_error(error) or "locked" not in str(error):
                    raise
                await scene.wait(scene.chance.random() * scene.pace)
            finally:
                scene.rows.note()
        await _hesitate(scene, 2)
        return scene.done(job)


async def _book(scene: Scene, job: Job, connection: Any) -> None:
    async with job.transaction(within=connection):
        await _hesitate(scene, 0.2)
        insert(connection, job.id, job.attempt, job.token)
        await _hesitate(scene, 0.2)


async def _hesitate(scene: Scene, most: float) -> None:
    """Wait for some time, and sometimes compute for longer, or die."""
    await scene.wait(scene.chance.random() * most * scene.pace)
    lot = scene.chance.random()
    if scene.is_rough and lot < 0.03:
        await scene.crash()
    if scene.is_rough and lot < 0.1:
        await scene.block(scene.chance.random() * 3 * scene.pace)


@cache
def _writing() -> dict[str, TaskDefinition]:
    return {BOOKING: define(booking, max_attempts=4, backoff=_BACKOFF)}


BOOKING = "booking"


def with_own_rows(plan: Plan) -> Plan:
    """Return the plan with handlers that write users' rows, in some of the worlds on a real file."""
    if plan.brand is not Brand.SQLITE or plan.mode not in (Mode.SAFETY, Mode.BEYOND):
        return plan
    is_drawn = random.Random(f"own rows {plan.chaos}").random() < SHARE
    return structs.replace(plan, tasks=(*plan.tasks, BOOKING, BOOKING)) if is_drawn else plan


def tasks_beside(ttl: float, plan: Plan) -> dict[str, TaskDefinition]:
    """Return the tasks of threads and runner processes, and those that write users' rows where the plan has them."""
    return threaded(ttl) | (_writing() if BOOKING in plan.tasks else {})
