"""How users write it. Checked with `mypy --strict`: every `type: ignore` here is an error users must see, no other may appear."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, assert_type
from uuid import UUID

import holdfast
from holdfast import (
    App,
    AtLeast,
    Backoff,
    Batch,
    Cause,
    Event,
    Explanation,
    Handle,
    Job,
    JobView,
    Limit,
    LimitStatus,
    Pruned,
    QueueSettings,
    QueueView,
    RescuedJob,
    RescueReason,
    Rows,
    State,
    Steered,
    SyncBatch,
    SyncJob,
    TaskGroup,
    Where,
)

app = App("memory://", ttl="30s")


@app.task
async def analyze(job: Job, repo_url: str, limit: int = 100) -> dict[str, int]:
    await job.progress(stage="clone", fraction=0.3, message="…")
    await job.checkpoint({"next": 17})
    return {"limit": limit}


@app.task(queue="slow", max_attempts=5, backoff=Backoff.exponential("1s", cap="1h"), fail_for=(ValueError,), on_crash="hold")
def shrink(job: SyncJob, path: str) -> str:
    job.progress(fraction=0.5)
    return path


@app.task()
async def plain_async(path: str) -> str:
    return path


@app.task
def plain(path: str, *, width: int = 800) -> str:
    return path


def blocking(sync_job: SyncJob) -> None:
    # The job parameter is the engine's; the rest is checked as in a call.
    assert_type(analyze.enqueue("u"), Handle[dict[str, int]])
    analyze.enqueue(repo_url="u", limit=5)
    shrink.enqueue("a.png")
    plain.enqueue("a.png", width=5)
    analyze.options(delay="10s", priority=-5, tags=["a"]).enqueue(repo_url="u")
    assert_type(analyze.enqueue_many([{"repo_url": "u"}]), list[Handle[dict[str, int]]])

    analyze.enqueue()  # type: ignore[call-arg]
    analyze.enqueue(repo_url=5)  # type: ignore[arg-type]
    analyze.enqueue("u", depth=1)  # type: ignore[call-arg]
    analyze.options(delay="10s").enqueue(5)  # type: ignore[arg-type]
    shrink.enqueue(sync_job, "a.png")  # type: ignore[call-arg, arg-type]
    app.task(retries=5)  # type: ignore[call-overload]
    _ = holdfast.Rowz  # type: ignore[attr-defined]

    # Calling a task calls the plain function.
    assert_type(plain("a.png"), str)
    assert_type(shrink(sync_job, "a.png"), str)
    plain(5)  # type: ignore[arg-type]


def with_options(connection: sqlite3.Connection) -> None:
    order = analyze.options(
        run_at=datetime(2030, 1, 1, tzinfo=UTC),
        priority=-5,
        unique_key="x",
        queue="q",
        expires_in="1h",
        tags=("a",),
        within=connection,
    )
    assert_type(order.enqueue("u", limit=5), Handle[dict[str, int]])
    assert_type(order.enqueue_many([{"repo_url": "u"}]), list[Handle[dict[str, int]]])
    assert_type(order.enqueue_many(({"repo_url": "u"} for _ in "ab"), progress=print), list[Handle[dict[str, int]]])
    assert_type(order.enqueue("u").created, bool)
    order.enqueue("u", limit="5")  # type: ignore[arg-type]
    order.enqueue_many(["u"])  # type: ignore[list-item]
    first = analyze.enqueue("u")
    behind = plain.options(after=[first, first.id, str(first.id)], join=AtLeast(2), when="finished")
    assert_type(behind.enqueue("a.png"), Handle[str])
    plain.options(after=[first], join="any").bind("a.png")
    plain.options(after=first)  # type: ignore[arg-type]
    plain.options(after=[5])  # type: ignore[list-item]
    plain.options(after=[first], join="some")  # type: ignore[arg-type]
    plain.options(after=[first], when="failed")  # type: ignore[arg-type]
    analyze.options(unique_key=5)  # type: ignore[arg-type]
    analyze.options(uniq_key="x")  # type: ignore[call-arg]
    analyze.bind("u", limit=5)
    analyze.bind(5)  # type: ignore[arg-type]


async def children(job: Job) -> None:
    assert_type(await job.enqueue(analyze, "u", limit=5), Handle)
    assert_type(await job.enqueue(plain.options(delay="1s"), "a.png", width=5), Handle)
    assert_type(await job.enqueue(shrink.bind("a.png")), Handle)
    await job.enqueue(analyze, 5)  # type: ignore[arg-type]
    await job.enqueue(analyze.options(queue="q"), depth=5)  # type: ignore[call-arg]
    await job.enqueue(shrink.bind("a.png"), "b.png")  # type: ignore[call-arg]
    await job.enqueue(with_options)  # type: ignore[arg-type]


def children_of_a_thread(job: SyncJob) -> None:
    assert_type(job.enqueue(plain, "a.png", width=5), Handle)
    job.enqueue(plain, width=5)  # type: ignore[call-arg]


async def in_a_loop(handle: Handle, job: Job) -> None:
    assert_type(await analyze(job, "u"), dict[str, int])
    assert_type(await analyze.aenqueue("u"), Handle[dict[str, int]])
    assert_type(await plain_async.options(queue="q").aenqueue(path="u"), Handle[str])
    await analyze.aenqueue(repo_url=5)  # type: ignore[arg-type]
    assert_type(await handle.aget(), JobView)
    assert_type(await handle.acancel(), State)


@app.task(limit=Limit(concurrency=10, per_key=2, rate="100/m", rate_per_key="5/s", burst=20), key="customer")
def limited(customer: str) -> None: ...


def limits() -> None:
    app.queue("mail", priority=-10, weight=3, limit=Limit(concurrency=1), key_weights={"acme": 3})
    app.limit(Limit(concurrency=500))
    app.task(limit=10)(limited)  # type: ignore[call-overload]
    assert_type(app.limits.list(), list[LimitStatus])
    assert_type(app.limits.set("queue", "mail", Limit(concurrency=1)), LimitStatus)
    assert_type(app.limits.set("cluster", Limit(concurrency=1)), LimitStatus)
    app.limits.set("queues", "mail", Limit(concurrency=1))  # type: ignore[arg-type]
    app.limits.clear("queue", "mail")
    assert_type(app.queues.set("mail", priority=1, weight=2, key_weights={"acme": 3}), QueueSettings)
    app.queues.unset("mail")


def operators(handle: Handle, id: UUID) -> None:
    assert_type(handle.get(), JobView)
    assert_type(handle.result(timeout="60s"), Any)
    assert_type(app.jobs.list(state="failed", limit=5), list[JobView])
    assert_type(app.jobs.cancel([id, str(id)]), dict[UUID, State])
    app.jobs.list(status="failed")  # type: ignore[call-arg]
    assert_type(app.jobs.ids(state="failed", reason="STALLED"), list[UUID])
    assert_type(app.jobs.reschedule(id, delay="1h"), dict[UUID, State])
    assert_type(app.jobs.delete([id]), dict[UUID, State])
    assert_type(app.jobs.cancel(where=Where(state="failed", older_than="1h"), dry_run=True), Steered)
    assert_type(app.jobs.reschedule(where=Where(key="tenant"), delay="1h", limit=5).refused, dict[UUID, State])
    app.jobs.retry(where="failed")  # type: ignore[call-overload]
    assert_type(app.jobs.explain(id), Explanation)
    assert_type(app.jobs.explain(id).causes, tuple[Cause, ...])
    assert_type(app.queues.list(), list[QueueView])
    app.queues.pause(["q", "r"])
    app.queues.resume("q")
    assert_type(app.queues.purge("q"), int)
    assert_type(app.prune(), Pruned)


group = TaskGroup(prefix="email.", queue="mail")


@group.task(max_attempts=5)
async def send(job: Job, to: str) -> str:
    return job.state.send(to)  # type: ignore[no-any-return]


async def repair(connection: Any, job: RescuedJob) -> None:
    assert_type(job.reason, RescueReason)
    assert_type(job.state, State)
    assert_type(job.id, UUID)


@app.task(on_rescue=repair)
async def repaired(job: Job, number: int) -> int:
    assert_type(job.rescued, RescueReason | None)
    return number


@app.task(on_rescue="repair")  # type: ignore[call-overload, untyped-decorator]
async def hurt(number: int) -> int:
    return number


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, int]]:
    yield {"answer": 42}


shop = App("memory://", transport=None, schema="holdfast", imports=("shop.tasks",), lifespan=lifespan)


async def embedded() -> None:
    shop.include(group)
    send.enqueue(to="a@example.org")
    send.enqueue(to=5)  # type: ignore[arg-type]
    async with shop.worker(concurrency=10, queues=["mail"]):
        assert_type(await shop.arun_due(), int)
    assert_type(shop.run_due(limit=5), int)


@app.on("job.rescued")
def tell(event: Event) -> None:
    assert event.fields["job"]


pastes = shop.rows(
    "pastes",
    key="id",
    status="status",
    pending="new",
    in_progress="busy",
    done="gone",
    claimed_at="since",
    where="expires_at < now()",
    url="sqlite:///shop.db",
)
assert_type(pastes, Rows)


@pastes.handler
async def delete(batch: Batch) -> None:
    assert_type(await batch.done(batch.keys), list[Any])
    async with batch.transaction() as tx:
        assert_type(await tx.retry(batch.open), list[Any])
    assert_type(await batch.alive(), bool)
    assert_type(batch.job, Job)


@shop.rows("a", key=("b", "c"), status="s", pending=0, in_progress=1, done=2, claimed_at="t", where="true").handler
def drop(batch: SyncBatch) -> None:
    assert_type(batch.fail(batch.keys, "no"), list[Any])
    with batch.transaction() as tx:
        assert_type(tx.done(row["b"] for row in batch.rows), list[Any])


@pastes.handler  # type: ignore[type-var]
def wrong(batch: str) -> None: ...
