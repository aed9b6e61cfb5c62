"""procrastinate on psycopg."""

from __future__ import annotations

import asyncio

from procrastinate import App, JobContext, PsycopgConnector

from bench.peers_torture import journal
from bench.peers_torture.contestants import CONCURRENCY, Order, numbers


def prepare(order: Order) -> None:
    asyncio.run(_prepare(order))


def enqueue(order: Order, count: int) -> None:
    asyncio.run(_enqueue(order, count))


def work(order: Order) -> None:
    asyncio.run(_work(order))


def _app_of(order: Order) -> App:
    app = App(connector=PsycopgConnector(conninfo=order.url))
    app.task(name="torture")(journal.work)
    if order.setting == "retry_stalled_jobs":
        _retry_stalled(app)
    return app


def _retry_stalled(app: App) -> None:
    """Retry as the task of its documentation does, but every minute instead of every tenth, so that it comes within the window."""

    @app.periodic(cron="* * * * *")
    @app.task(name="retry_stalled_jobs", queueing_lock="retry_stalled_jobs", pass_context=True)
    async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)


async def _prepare(order: Order) -> None:
    async with _app_of(order).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def _enqueue(order: Order, count: int) -> None:
    async with _app_of(order).open_async() as app:
        for job in numbers(count):
            await app.tasks["torture"].defer_async(job=job)


async def _work(order: Order) -> None:
    async with _app_of(order).open_async() as app:
        journal.say_up()
        await app.run_worker_async(concurrency=CONCURRENCY)
