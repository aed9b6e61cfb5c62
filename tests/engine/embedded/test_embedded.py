"""A worker inside the caller's event loop: jobs run between entry and exit, and nothing is left behind."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, ConfigurationError, Event, HoldfastError, Job, JobLost, State, SyncJob
from holdfast._core.job import NewJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest
from tests.engine.support import LEASE, Held, turns, until
from tests.event_loops import run

Make = Callable[..., App]


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[App] = []

    def app(**settings: Any) -> App:
        made.append(App(request.param.format(tmp_path), **{"poll_interval": "20ms", "grace": "10s", **settings}))
        return made[-1]

    yield app
    for each in made:
        each.close()


async def add(number: int) -> int:
    return number + 1


def in_thread(job: SyncJob, number: int) -> list[object]:
    return [number, threading.current_thread().name.startswith("holdfast-handler")]


async def test_jobs_run_between_entry_and_exit(make: Make) -> None:
    app = make()
    one, other = app.task(add), app.task(in_thread)
    async with app.worker(concurrency=10):
        first, second = await one.aenqueue(1), await other.aenqueue(2)
        assert await first.aresult(timeout=20) == 2
        assert await second.aresult(timeout=20) == [2, True]
        (lease,) = await app.workers.alist()
        assert (lease.slots, lease.tasks, lease.process.pid) == (10, ("add", "in_thread"), os.getpid())
    assert (await (await one.aenqueue(3)).aget()).state is State.AVAILABLE


def test_nothing_is_left_behind(make: Make) -> None:
    app = make()
    task = app.task(in_thread)
    task.enqueue(1)

    async def main() -> tuple[set[str], int]:
        handle = await task.aenqueue(1)
        async with app.worker():
            await handle.aresult(timeout=20)
            assert any(thread.name == "holdfast-supervisor" for thread in threading.enumerate())
        assert await app.workers.alist() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await app.aclose()
        gc.collect()
        names = {thread.name for thread in threading.enumerate() if "handler" not in thread.name}
        return names - {"holdfast-alarm"}, len(os.listdir("/proc/self/fd"))  # an alarm that goes off has a thread for a moment

    run(main())
    before = asyncio.run(main())
    assert before == asyncio.run(main())
    assert "holdfast-supervisor" not in before[0]


async def test_the_exit_waits_for_running_jobs_and_starts_no_other(make: Make) -> None:
    app = make()
    started, gate = asyncio.Event(), asyncio.Event()

    @app.task
    async def wait() -> str:
        started.set()
        await gate.wait()
        return "done"

    first = await wait.aenqueue()
    leaving = asyncio.get_running_loop().create_future()

    async def run_worker() -> None:
        async with app.worker(concurrency=1):
            await started.wait()
            leaving.set_result(await wait.aenqueue())

    running = asyncio.ensure_future(run_worker())
    second = await leaving
    while not (lease := (await app.workers.alist())[0]).is_draining:
        await turns()
    assert (await first.aget()).state is State.RUNNING
    assert not running.done()
    gate.set()
    await running
    assert (await first.aget()).result == "done"
    assert (await second.aget()).state is State.AVAILABLE
    assert lease.id not in {each.id for each in await app.workers.alist()}


async def test_an_error_of_the_body_is_raised_after_the_drain(make: Make) -> None:
    app = make()
    ended: list[str] = []
    started = asyncio.Event()

    @app.task
    async def slow() -> None:
        started.set()
        for _ in range(20):
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        ended.append("job")

    await slow.aenqueue()

    async def run_worker() -> None:
        async with app.worker():
            await started.wait()
            raise ValueError("of the body")

    with pytest.raises(ValueError, match="of the body"):
        await run_worker()
    assert ended == ["job"]


async def test_a_job_that_outlasts_the_grace_is_released_free_of_charge(make: Make) -> None:
    app = make(grace="20ms")
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    handle = await endless.aenqueue()
    async with app.worker():
        await started.wait()
    view = await handle.aget()
    assert (view.state, view.attempt, view.crashes, view.failures) == (State.AVAILABLE, 1, 0, 0)


async def test_a_cancellation_while_draining_cuts_the_grace_short(make: Make) -> None:
    app = make(grace="600s")
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    handle = await endless.aenqueue()
    leaving = asyncio.Event()

    async def run_worker() -> None:
        async with app.worker():
            await started.wait()
            leaving.set()

    running = asyncio.ensure_future(run_worker())
    await leaving.wait()
    assert not (await asyncio.wait({running}, timeout=0.05))[0]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await handle.aget()).state is State.AVAILABLE
    assert await app.workers.alist() == []


async def test_a_thread_that_outlasts_the_worker_runs_on_fenced(make: Make) -> None:
    app = make(grace="20ms", ttl="600ms")
    held, raised = Held(), list[str]()
    over = threading.Event()

    @app.task
    def unresponsive(job: SyncJob) -> None:
        try:
            held.wait_here()
            job.progress(fraction=0.5)
        except JobLost:
            raised.append("lost")
        finally:
            over.set()

    handle = await unresponsive.aenqueue()
    async with app.worker():
        await until(held.come.is_set)
    view = await handle.aget()
    assert (view.state, view.crashes) == (State.AVAILABLE, 0)
    assert await app.workers.alist() == []
    held.set()
    await until(over.is_set)
    assert raised == ["lost"]


async def test_two_workers_and_two_apps_run_side_by_side(make: Make) -> None:
    app, other = make(), App("memory://", poll_interval="20ms")
    task, its = app.task(queue="a")(add), other.task(add)
    async with app.worker(queues=["a"]), app.worker(queues=["b"]), other.worker():
        own, others = await task.aenqueue(1), await its.aenqueue(5)
        unserved = await task.options(queue="c").aenqueue(1)
        assert (await own.aresult(timeout=20), await others.aresult(timeout=20)) == (2, 6)
        assert {lease.queues for lease in await app.workers.alist()} == {("a",), ("b",)}
        assert len(await other.workers.alist()) == 1
    assert (await unserved.aget()).state is State.AVAILABLE
    await other.aclose()


async def test_an_embedded_worker_leaves_signal_handlers_unchanged(make: Make) -> None:
    app = make()
    app.task(add)
    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    async with app.worker():
        assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before


def test_handlers_see_what_the_lifespan_yielded_and_it_is_left_after_the_drain(make: Make) -> None:
    story: list[str] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[dict[str, int]]:
        story.append("enter")
        yield {"answer": 42}
        story.append("leave")

    app = make(lifespan=lifespan)

    @app.task
    async def ask(job: Job) -> int:
        story.append("job")
        return int(job.state["answer"])

    @app.task
    def ask_in_thread(job: SyncJob) -> int:
        return int(job.state["answer"])

    async def main() -> None:
        async with app.worker():
            assert await (await ask.aenqueue()).aresult(timeout=20) == 42
            assert await (await ask_in_thread.aenqueue()).aresult(timeout=20) == 42
        assert story == ["enter", "job", "leave"]

    run(main())


def test_entry_raises_the_error_of_a_lifespan_that_fails(make: Make) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    app = make(lifespan=lifespan)
    task = app.task(add)

    async def main() -> None:
        handle = await task.aenqueue(1)
        with pytest.raises(ConfigurationError, match="lifespan failed: OSError: no database"):
            async with app.worker():
                raise AssertionError("never entered")
        assert await app.workers.alist() == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert (await handle.aget()).attempt == 0

    run(main())


def test_options_that_cannot_work_are_refused_before_anything_starts(make: Make) -> None:
    app = make()
    with pytest.raises(ConfigurationError, match=r"no tasks: .*imports"):
        app.worker()
    app.task(add)
    with pytest.raises(ConfigurationError) as caught:
        app.worker(concurrency=0, queues=["a b", ""])
    assert len(caught.value.problems) == 3
    with pytest.raises(ConfigurationError, match="list of names"):
        app.worker(queues="mail")


def test_entry_raises_when_the_store_cannot_be_opened(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/nowhere/jobs.db")
    app.task(add)

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="nowhere"):
            await app.worker().__aenter__()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())
    assert not any(thread.name == "holdfast-supervisor" for thread in threading.enumerate())


async def test_a_worker_can_be_entered_again_but_not_twice_at_once(make: Make) -> None:
    app = make()
    task = app.task(add)
    worker = app.worker()
    for _ in range(2):
        async with worker:
            with pytest.raises(HoldfastError, match="runs already"):
                await worker.__aenter__()
            assert await (await task.aenqueue(1)).aresult(timeout=20) == 2


async def test_handlers_run_in_the_context_of_the_entry(make: Make) -> None:
    app = make()
    tenant = ContextVar("tenant", default="nobody")

    @app.task
    async def who() -> str:
        return tenant.get()

    tenant.set("shop")
    async with app.worker():
        assert await (await who.aenqueue()).aresult(timeout=20) == "shop"


async def test_the_supervisor_thread_enforces_the_timeout_of_a_task(make: Make) -> None:
    app = make(ttl="600ms")

    @app.task(timeout="50ms", max_attempts=1)
    async def endless() -> None:
        await asyncio.get_running_loop().create_future()

    async with app.worker():
        handle = await endless.aenqueue()
        await until_finished(app, handle.id)
    assert (await handle.aget()).reason == "TIMED_OUT"


def test_isolated_jobs_run_and_rescue_events_arrive_in_the_users_loop(make: Make) -> None:
    app = make()
    received: list[tuple[str, int]] = []
    app.on("job.rescued")(lambda event: received.append((event.fields["worker"], threading.get_ident())))
    app.task(max_crashes=2)(add)

    async def main() -> None:
        store = app._connections.store
        job = NewJob(id=UUID(int=1), task="add", payload=b'{"number":1}', policy=Policy(max_crashes=2))
        await store.enqueue(UUID(int=2), [job])
        await store.open_lease(LEASE)
        request = ClaimRequest(lease=LEASE.id, claim=UUID(int=3), tasks={"add": Policy(max_crashes=2)}, limit=1)
        assert len((await store.exchange((), request)).claims) == 1
        await store.end_lease(LEASE.id, LeaseEnd(RescueReason.CRASHED))
        async with app.worker():
            await until_finished(app, job.id)
        view = await app.jobs.aget(job.id)
        assert (view.state, view.result, view.crashes) == (State.COMPLETED, 2, 1)

    run(main())
    assert received == [(LEASE.worker, threading.get_ident())]


async def test_a_subscriber_that_fails_breaks_nothing(make: Make) -> None:
    app = make()
    task = app.task(add)

    @app.on("*")
    def fail(event: Event) -> None:
        raise RuntimeError(event.name)

    async with app.worker():
        assert await (await task.aenqueue(1)).aresult(timeout=20) == 2


async def until_finished(app: App, job: UUID) -> None:
    while not (await app.jobs.aget(job)).finished_at:
        await turns()
