"""DBOS: a queue of workflows of one step each.

Without its Conductor, a service, no process notices that an executor has died: it recovers its own workflows when it is started
again. Under the setting ``told`` the trial acts as the Conductor: SIGUSR1 asks a worker to recover what the other one had.
"""

from __future__ import annotations

import signal
from typing import Any, cast

from dbos import DBOS, SetWorkflowID  # type: ignore[import-not-found, unused-ignore]

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers

QUEUE = "torture"
WITH_IDS = ("executor ids", "told")
OTHER = {"a": "b", "b": "a"}


@DBOS.workflow()  # type: ignore[untyped-decorator, unused-ignore]
async def torture(job: int) -> None:
    """Do the work of all contestants."""
    await labour(job)


@DBOS.step()  # type: ignore[untyped-decorator, unused-ignore]
async def labour(job: int) -> None:
    """Do what must not be done again once it is done."""
    await journal.work(job)


def prepare(order: Order) -> None:
    _launch(order)
    DBOS.destroy()


def enqueue(order: Order, count: int) -> None:
    """Enqueue from a process that runs none."""
    _launch(order, listens=False)
    for job in numbers(count):
        with SetWorkflowID(f"job-{job}"):
            DBOS.enqueue_workflow(QUEUE, torture, job)
    DBOS.destroy()


def work(order: Order) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    _launch(order)
    journal.say_up()
    while signal.sigwait({signal.SIGUSR1}):
        DBOS._recover_pending_workflows([OTHER[order.worker]])


def _launch(order: Order, *, listens: bool = True) -> None:
    executor = order.worker if order.setting in WITH_IDS else None
    where = {"name": "torture", "system_database_url": order.url, "application_version": "1", "executor_id": executor}
    DBOS(config=cast(Any, where))
    if not listens:
        DBOS.listen_queues([])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY)
