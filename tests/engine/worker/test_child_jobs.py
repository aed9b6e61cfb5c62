"""A child job exists if and only if its parent was still running under the handler's token when the child was written."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, ConfigurationError, Handle, JobLost, PayloadInvalid, StoreUnavailable, UniqueConflict
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.record import JobRecord
from holdfast._core.requests import JobFilter
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._ports.transport import Hint
from tests.engine.support import LEASE, Bench, forever, turns, until

APP = App("memory://")
EXPIRED = LeaseEnd(RescueReason.EXPIRED)


@APP.task(queue="thumbs", priority=3)
async def thumbnail(path: str, width: int = 100) -> None: ...


async def started(*parents: Callable[..., Any]) -> tuple[Bench, UUID]:
    """Return a worker that runs a job of the first handler, and the job's id."""
    bench = Bench(*parents)
    (job,) = await bench.open((parents[0].__name__, b"{}"))
    await bench.exchange.step()
    return bench, job


async def children_of(bench: Bench) -> list[JobRecord]:
    return [row for row in await bench.memory.list(JobFilter()) if row.task == "thumbnail"]


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_child_is_durable_announced_and_hinted_when_enqueue_returns(kind: str) -> None:
    made: list[Handle] = []

    async def in_loop(job: Job) -> None:
        made.append(await job.enqueue(thumbnail, "a.png", width=5))
        await forever()

    def in_thread(job: SyncJob) -> None:
        made.append(job.enqueue(thumbnail, "a.png", width=5))

    bench, _ = await started(in_loop if kind == "loop" else in_thread)
    await until(lambda: made)
    (child,) = await children_of(bench)
    assert (child.id, child.payload, child.queue, child.priority) == (
        made[0].id,
        b'{"path":"a.png","width":5}',
        "thumbs",
        3,
    )
    assert made[0].created
    assert bench.hints == [Hint("thumbs", (child.id,))]
    assert [fields["job"] for fields in bench.log.of("job.enqueued")] == [child.id]


async def test_a_child_takes_options_and_prepared_jobs() -> None:
    async def parent(job: Job) -> None:
        await job.enqueue(thumbnail.options(queue="q", delay="1h", tags=["t"]), path="b")
        bound = thumbnail.options(priority=-1).bind(path="c")
        await job.enqueue(bound)
        await job.enqueue(bound)

    bench, _ = await started(parent)
    await bench.until_ended()
    found = [(row.queue, row.state, row.tags, row.priority) for row in reversed(await children_of(bench))]
    assert found[0] == ("q", State.SCHEDULED, ("t",), 3)
    assert found[1] == found[2] == ("thumbs", State.AVAILABLE, (), -1)


async def test_a_child_of_a_lost_job_does_not_exist_and_its_parent_is_stopped() -> None:
    errors: list[BaseException] = []

    async def parent(job: Job) -> None:
        await gate.wait()
        for _ in range(2):
            try:
                await job.enqueue(thumbnail, "a")
            except JobLost as error:
                errors.append(error)
        raise errors[0]

    gate = asyncio.Event()
    bench, job = await started(parent)
    await bench.memory.end_lease(LEASE.id, EXPIRED)
    taken = (await bench.memory.held(LEASE.id))[0]
    await bench.exchange.step()
    await bench.memory.exchange([rescue(taken, EXPIRED, jitter=0.0)])
    gate.set()
    await bench.until_ended()
    assert [str(error).startswith(f"job {job} was taken") for error in errors] == [True, True]
    assert await children_of(bench) == []
    assert bench.ended[0].transition is None
    assert bench.store.calls.count("enqueue") == 1, "the second call raises without asking the store"


async def test_s10_a_child_whose_enqueue_had_no_answer_is_sent_again_and_exists_once() -> None:
    async def parent(job: Job) -> None:
        made.append(await job.enqueue(thumbnail, "a"))

    made: list[Handle] = []
    bench, _ = await started(parent)
    bench.store.lose_answer("enqueue")
    bench.store.fail("enqueue", 2)
    for _ in range(20):
        await turns()
        bench.clock.advance(1.0)
    await bench.until_ended()
    assert [row.id for row in await children_of(bench)] == [made[0].id]


@pytest.mark.parametrize("why", [Stop.LATE, Stop.LOST, Stop.DRAINED])
@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_handler_that_is_to_stop_does_not_wait_for_a_store_that_is_away(why: Stop, kind: str) -> None:
    async def in_loop(job: Job) -> None:
        await job.enqueue(thumbnail, "a")

    def in_thread(job: SyncJob) -> None:
        try:
            job.enqueue(thumbnail, "a")
        except BaseException as error:
            errors.append(error)
            raise

    errors: list[BaseException] = []
    bench, job = await started(in_loop if kind == "loop" else in_thread)
    bench.store.fail("enqueue", 1000)
    await until(lambda: "enqueue" in bench.store.calls)
    bench.executor.stop(job, why)
    await bench.until_ended()
    assert bench.ended[0].transition is None or bench.ended[0].transition.to is State.AVAILABLE
    if kind == "thread":
        assert isinstance(errors[0], JobLost if why is Stop.LOST else asyncio.CancelledError)


async def test_l8_a_handler_whose_child_waits_for_the_store_does_not_stall() -> None:
    async def parent(job: Job) -> None:
        await job.enqueue(thumbnail, "a")
        await forever()

    bench, job = await started(parent)
    bench.store.fail("enqueue", 1)
    await until(lambda: "enqueue" in bench.store.calls)
    bench.reports.moves.clear()
    bench.reports.tell_latest()
    assert bench.reports.moves == [job]
    bench.clock.advance(1.0)
    await until(lambda: bench.hints)
    bench.reports.moves.clear()
    bench.reports.tell_latest()
    assert bench.reports.moves == []


async def test_an_outage_longer_than_the_retries_raises_in_the_handler() -> None:
    async def parent(job: Job) -> None:
        await is_down.wait()
        try:
            await job.enqueue(thumbnail, "a")
        except StoreUnavailable as error:
            errors.append(error)

    errors: list[BaseException] = []
    is_down = asyncio.Event()
    bench, _ = await started(parent)
    bench.store.fail("enqueue", 1000)
    is_down.set()
    for _ in range(100):
        await turns()
        bench.clock.advance(1.0)
    await bench.until_ended()
    assert len(errors) == 1


async def test_s11_a_child_with_a_unique_key_is_enqueued_once() -> None:
    async def parent(job: Job) -> None:
        keyed = thumbnail.options(unique_key="k")
        made.extend([await job.enqueue(keyed, "a"), await job.enqueue(keyed, "a")])
        try:
            await job.enqueue(keyed, "b")
        except UniqueConflict as error:
            conflicts.append(error)

    made: list[Handle] = []
    conflicts: list[UniqueConflict] = []
    bench, _ = await started(parent)
    await bench.until_ended()
    assert [(handle.id, handle.created) for handle in made] == [(made[0].id, True), (made[0].id, False)]
    assert [conflict.job for conflict in conflicts] == [made[0].id]
    assert len(await children_of(bench)) == len(bench.hints) == 1


async def test_a_child_that_does_not_fit_is_refused_in_the_handlers_call() -> None:
    async def parent(job: Job) -> None:
        for order, arguments in ((thumbnail, {"path": 5}), (thumbnail.options(within=object()), {"path": "a"})):
            try:
                await job.enqueue(order, **arguments)  # type: ignore[arg-type]
            except (PayloadInvalid, ConfigurationError) as error:
                errors.append(str(error))

    errors: list[str] = []
    bench, _ = await started(parent)
    await bench.until_ended()
    assert ["$.path" in errors[0], "leave within out" in errors[1]] == [True, True]
    assert "enqueue" not in bench.store.calls
