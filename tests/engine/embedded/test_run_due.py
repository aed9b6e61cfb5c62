"""``run_due`` runs every job that is due before it returns, and nothing else."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Backoff, ConfigurationError, Job, Retry, Snooze, State, SyncJob
from holdfast._system.clock import SystemClock
from holdfast.errors import InsideEventLoop, StoreDamaged
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore

Make = Callable[..., App]


@pytest.fixture(params=["memory://", "sqlite:///{}/jobs.db"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[App] = []

    def app(**settings: Any) -> App:
        made.append(App(request.param.format(tmp_path), **settings))
        return made[-1]

    yield app
    for each in made:
        each.close()


def states(app: App) -> dict[str, int]:
    return {state: count for state, count in app.jobs.counts().items() if count}


def test_jobs_run_one_after_the_other_in_the_order_of_claims(make: Make) -> None:
    app, ran = make(), list[str]()

    @app.task
    async def one(name: str) -> None:
        ran.append(name)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        ran.append(f"{name} ends")

    @app.task
    def other(name: str) -> None:
        ran.append(name)
        ran.append(f"{name} ends")

    one.enqueue("a")
    other.enqueue("b")
    one.options(priority=-1).enqueue("c")
    assert app.run_due() == 3
    assert ran == ["c", "c ends", "a", "a ends", "b", "b ends"]
    assert app.run_due() == 0
    assert app.workers.list() == []


def test_jobs_due_later_wait_and_jobs_enqueued_by_a_handler_run(make: Make) -> None:
    app = make()

    @app.task
    async def parent(job: Job, depth: int) -> None:
        if depth:
            await job.enqueue(parent, depth=depth - 1)

    parent.options(delay="1h").enqueue(depth=0)
    parent.enqueue(depth=3)
    assert app.run_due() == 4
    assert states(app) == {"scheduled": 1, "completed": 4}


def test_a_retry_for_now_runs_and_a_retry_for_later_does_not(make: Make) -> None:
    app, tries = make(), list[int]()

    @app.task(max_attempts=3, backoff=Backoff.fixed(0))
    async def now(job: Job) -> None:
        tries.append(job.attempt)
        raise ValueError("again")

    @app.task
    async def later(job: Job) -> Retry:
        return Retry(after=3600)

    @app.task
    def snooze(job: SyncJob) -> Snooze | str:
        return Snooze(0) if job.attempt == 1 else "rested"

    handles = [task.enqueue() for task in (now, later, snooze)]
    assert app.run_due() == 6
    assert tries == [1, 2, 3]
    views = [handle.get() for handle in handles]
    assert [view.state for view in views] == [State.FAILED, State.SCHEDULED, State.COMPLETED]
    assert views[0].error is not None
    assert (views[0].error.type, views[0].error.message) == ("ValueError", "again")


def test_run_due_ends_at_its_limit_when_a_job_enqueues_itself(make: Make) -> None:
    app = make()

    @app.task
    async def again() -> None:
        await again.aenqueue()

    again.enqueue()
    assert app.run_due(limit=7) == 7
    assert states(app) == {"available": 1, "completed": 7}
    with pytest.raises(ConfigurationError, match="limit=0"):
        app.run_due(limit=0)


def test_progress_checkpoints_and_results_are_kept(make: Make) -> None:
    app = make()

    @app.task
    def work(job: SyncJob) -> dict[str, int]:
        job.progress(stage="half", fraction=0.5)
        job.checkpoint({"next": 1})
        return {"threads": threading.active_count()}

    handle = work.enqueue()
    assert app.run_due() == 1
    view = handle.get()
    assert (view.state, view.stage, view.checkpoint) == (State.COMPLETED, "half", {"next": 1})


def test_run_due_waits_for_no_timer(make: Make) -> None:
    app = make(poll_interval="1h", recovery_interval="1h")

    @app.task
    async def quick() -> None: ...

    quick.enqueue()
    app.run_due()
    quick.enqueue_many([{}] * 5)
    spent, clock = [], SystemClock()
    for _ in range(3):
        started = clock.monotonic()
        app.run_due()
        spent.append(clock.monotonic() - started)
    assert states(app) == {"completed": 6}
    assert min(spent) < 0.5


def test_a_handler_that_blocks_the_loop_keeps_its_job_and_the_rest_runs_too(make: Make) -> None:
    app = make(ttl="200ms")

    @app.task
    async def block() -> str:
        threading.Event().wait(0.3)
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        return "done"

    handles = [block.enqueue(), block.enqueue()]
    assert app.run_due() == 2
    assert [handle.get().attempt for handle in handles] == [1, 1]


def test_jobs_that_wait_for_each_other_run_with_concurrency(make: Make) -> None:
    app = make()

    @app.task
    async def child() -> int:
        return 5

    @app.task
    async def parent() -> Any:
        return await (await child.aenqueue()).aresult(timeout=20)

    handle = parent.enqueue()
    assert app.run_due(concurrency=2) == 2
    assert handle.result(timeout=1) == 5


def test_each_call_enters_and_leaves_the_lifespan(make: Make) -> None:
    story: list[str] = []

    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[int]:
        story.append("enter")
        yield 42
        story.append("leave")

    app = make(lifespan=lifespan)

    @app.task
    async def ask(job: Job) -> int:
        return int(job.state)

    handle = ask.enqueue()
    app.run_due()
    assert (handle.get().result, story) == (42, ["enter", "leave"])


def test_run_due_raises_when_the_lifespan_fails_and_charges_no_attempt(make: Make) -> None:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[int]:
        raise OSError("no database")
        yield

    app = make(lifespan=lifespan)

    @app.task
    async def ask() -> None: ...

    handle = ask.enqueue()
    with pytest.raises(ConfigurationError, match="no database"):
        app.run_due()
    assert (handle.get().state, handle.get().attempt) == (State.AVAILABLE, 0)
    assert app.workers.list() == []


async def test_a_cancelled_arun_due_stops_its_job_and_releases_it(make: Make) -> None:
    app, started = make(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.get_running_loop().create_future()

    handle = await endless.aenqueue()
    running = asyncio.ensure_future(app.arun_due())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await handle.aget()).state is State.AVAILABLE
    assert await app.workers.alist() == []
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await app.aclose()


async def test_run_due_names_arun_due_when_called_inside_an_event_loop(make: Make) -> None:
    app = make()

    @app.task
    async def quick() -> None: ...

    await quick.aenqueue()
    with pytest.raises(InsideEventLoop, match="await arun_due"):
        app.run_due()
    assert await app.arun_due() == 1
    await app.aclose()


def test_tasks_of_others_and_paused_queues_are_left_alone(make: Make) -> None:
    app = make()

    @app.task(queue="slow")
    async def quick() -> None: ...

    app.enqueue("elsewhere")
    quick.enqueue()
    app.queues.pause("slow")
    assert app.run_due() == 0
    assert states(app) == {"available": 2}


def test_damage_that_a_claim_finds_is_reported_as_such(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make()

    @app.task
    def one() -> None: ...

    async def damaged(*_: object) -> None:
        raise StoreDamaged("exchange: jobs.db: database disk image is malformed: restore a backup")

    one.enqueue()
    for store in (MemoryStore, SqliteStore):
        monkeypatch.setattr(store, "exchange", damaged)
    with pytest.raises(StoreDamaged, match="restore a backup"):
        app.run_due()
