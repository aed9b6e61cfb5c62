"""``on_rescue``: the hook repairs the user's row before the next attempt, or runs by itself when no attempt follows."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import App, Backoff, ConfigurationError, Fail, Handle, Job, RescuedJob, Snooze, SyncJob
from holdfast._core.job import AttemptOutcome, Claim, Reason, Rescue, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, IsolatedJobs, JobFilter, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine.environment import Environment
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks.registry import define
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.rescue_hooks import RescueHooks
from holdfast.errors import HoldfastError, JobLost, StoreUnavailable
from holdfast.settings import Settings
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryTransport
from tests.engine.support import LEASE, SETTINGS, AlwaysDueHooks, Bench, Held, Log, claim, forever, registry, turns, until
from tests.event_loops import beside, run

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


class Shop:
    """An App on a file that also has the user's table ``orders``: one row for each job, "busy" while its handler runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.app = App(f"sqlite:///{self.path}")
        self.app.migrate()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.rescued: list[RescuedJob] = []
        self.app.on("*")(lambda event: self.events.append((event.name.value, event.fields)))
        self.sql("CREATE TABLE orders (number INTEGER PRIMARY KEY, status TEXT)")

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement that waits for no lock."""
        with closing(sqlite3.connect(self.path, isolation_level=None, timeout=0)) as connection:
            return connection.execute(statement, values).fetchall()

    def status(self, number: int = 1) -> str:
        ((status,),) = self.sql("SELECT status FROM orders WHERE number = ?", number)
        return str(status)

    def repair(self, connection: Any, job: RescuedJob) -> None:
        """Do what a hook does: write the user's row in the hook's transaction."""
        self.rescued.append(job)
        status = "repaired" if job.state is State.RUNNING else f"{job.state} by {job.reason}"
        connection.execute("UPDATE orders SET status = ? WHERE number = ?", (status, job.payload["number"]))

    async def arepair(self, connection: Any, job: RescuedJob) -> None:
        self.repair(connection, job)

    def crash(self, handle: Handle, why: LeaseEnd = CRASH) -> None:
        """Let the job's worker die while the job runs; the user's row stays "busy"."""
        self.sql("INSERT OR REPLACE INTO orders VALUES (1, 'busy')")
        asyncio.run(self._crash(why))
        assert handle.get().attempt == 1

    async def _crash(self, why: LeaseEnd) -> None:
        store, chance = self.app._connections.store, self.app._connections.chance
        lease = NewLease(chance.uuid4(), "worker-1", LEASE.process, LEASE.timing)
        await store.open_lease(lease)
        tasks = self.app.registry.policies()
        request = ClaimRequest(lease=lease.id, claim=chance.uuid4(), tasks=tasks, limit=1, isolated=IsolatedJobs.INCLUDE)
        (taken,) = (await store.exchange((), request)).claims
        await store.end_lease(lease.id, why)
        await store.exchange([rescue(taken.job, why, jitter=0.0)])

    def names(self, prefix: str) -> list[str]:
        return [name for name, _ in self.events if name.startswith(prefix)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.app.close()


def stay_open(shop: Shop) -> None:
    """Fail if another connection has the file's lock."""
    shop.sql("UPDATE orders SET status = status || ' and free' WHERE status = 'repaired'")


# before the next attempt


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
def test_the_hook_has_committed_and_released_its_locks_when_the_next_attempt_starts(shop: Shop, kind: str) -> None:
    async def on_loop(job: Job, number: int) -> str:
        stay_open(shop)
        return f"{job.attempt} {job.rescued}"

    def in_thread(job: SyncJob, number: int) -> str:
        stay_open(shop)
        return f"{job.attempt} {job.rescued}"

    if kind == "async":
        handle = shop.app.task(on_rescue=shop.arepair)(on_loop).enqueue(number=1)
    else:
        handle = shop.app.task(on_rescue=shop.repair, process=kind == "process")(in_thread).enqueue(number=1)
    shop.crash(handle)
    assert handle.get().rescued == "crashed"
    assert shop.app.run_due() == 1
    assert handle.result() == "2 crashed"
    assert shop.status() == "repaired and free"
    (job,) = shop.rescued
    assert (job.id, job.task, job.payload, job.checkpoint) == (handle.id, handle.get().task, {"number": 1}, None)
    assert (job.reason, job.worker, job.attempt, job.state) == ("crashed", "worker-1", 1, "running")
    assert job.rescued_at == handle.get().attempts[0].ended_at
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_completed"]


def test_no_hook_runs_for_a_job_that_was_not_rescued(shop: Shop) -> None:
    @shop.app.task(on_rescue=shop.repair, max_attempts=2, backoff=Backoff.fixed(0))
    def work(job: SyncJob, number: int) -> str | None:
        if job.attempt == 1:
            raise ValueError(number)
        return job.rescued

    handle = work.enqueue(number=1)
    assert shop.app.run_due() == 2
    assert (handle.result(), handle.get().rescued, shop.rescued) == (None, None, [])


def test_a_job_of_a_task_without_a_hook_shows_that_it_was_rescued(shop: Shop) -> None:
    @shop.app.task
    async def work(job: Job, number: int) -> str | None:
        return job.rescued

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert handle.result() == "crashed"
    assert [fields.get("rescued") for name, fields in shop.events if name == "job.claimed"] == ["crashed"]
    assert handle.get().rescued == "crashed"


def test_the_hook_runs_for_a_payload_that_no_longer_fits(shop: Shop) -> None:
    @shop.app.task(name="work")
    def older(number: int) -> None: ...

    shop.app.registry._tasks["work"] = structs.replace(
        define(later_work, name="work", on_rescue=shop.repair),
    )
    handle = older.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.get().reason, shop.status()) == (Reason.PAYLOAD_INVALID, "repaired")


def later_work(other: str) -> None:
    """The handler of a later release."""


# what a hook raises


def test_a_hook_that_raises_fails_the_attempt_and_is_called_again_before_the_next(shop: Shop) -> None:
    ran = list[int]()

    def repair(connection: Any, job: RescuedJob) -> None:
        shop.repair(connection, job)
        if len(shop.rescued) < 3:
            raise KeyError(job.payload["number"])

    @shop.app.task(on_rescue=repair, max_attempts=3, backoff=Backoff.fixed(0))
    def work(job: SyncJob, number: int) -> None:
        ran.append(job.attempt)

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    view = handle.get()
    assert (ran, view.state, view.failures, view.crashes) == ([4], "completed", 2, 1)
    assert [(each.outcome, each.error.type if each.error else None) for each in view.attempts] == [
        ("crashed", None),
        ("failed", "KeyError"),
        ("failed", "KeyError"),
        ("completed", None),
    ]
    assert shop.status() == "repaired"
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_failed", "job.rescue_hook_failed", "job.rescue_hook_completed"]
    assert [each.attempt for each in shop.rescued] == [1, 1, 1]


def test_a_hook_that_always_raises_uses_up_the_attempts_then_runs_by_itself_and_not_again_at_once(shop: Shop) -> None:
    def repair(connection: Any, job: RescuedJob) -> None:
        shop.repair(connection, job)
        raise KeyError("always")

    @shop.app.task(on_rescue=repair, max_attempts=2, backoff=Backoff.fixed(0))
    def work(number: int) -> None:
        raise AssertionError("it must not run")

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    view = handle.get()
    assert (view.state, view.reason, view.error and view.error.type) == ("failed", "HANDLER_ERROR", "KeyError")
    assert shop.status() == "busy"
    assert [each.state for each in shop.rescued][:2] == ["running", "running"]
    assert [each.state for each in shop.rescued][2:] in ([], ["failed"])  # Empty if the run ended before the hook failed.
    shop.app.run_due()
    shop.app.run_due()
    assert [each.state for each in shop.rescued] == ["running", "running", "failed"]


@pytest.mark.parametrize(("answer", "state"), [(Snooze("1h"), "scheduled"), (Fail("hopeless"), "failed")])
def test_a_hook_may_raise_the_outcomes_of_a_handler(shop: Shop, answer: Exception, state: str) -> None:
    def repair(connection: Any, job: RescuedJob) -> None:
        shop.rescued.append(job)
        raise answer

    handle = shop.app.task(on_rescue=repair)(work_on).enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.get().state, shop.status()) == (state, "busy")


def work_on(number: int) -> None:
    raise AssertionError("it must not run")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(4), asyncio.CancelledError()])
def test_no_exception_of_a_hook_ends_its_worker(shop: Shop, error: BaseException) -> None:
    async def repair(connection: Any, job: RescuedJob) -> None:
        shop.rescued.append(job)
        if len(shop.rescued) == 1:
            raise error

    @shop.app.task(on_rescue=repair, backoff=Backoff.fixed(0))
    async def work(number: int) -> int:
        return number

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.result(), handle.get().failures) == (1, 1)


# the hook without an attempt


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    ("options", "state"),
    [({"max_crashes": 1}, "failed"), ({"on_crash": "fail"}, "failed"), ({"on_crash": "hold"}, "held")],
)
def test_the_hook_runs_without_an_attempt_for_a_job_that_ends(shop: Shop, kind: str, options: dict[str, Any], state: str) -> None:
    async def on_loop(number: int) -> None:
        raise AssertionError("it must not run")

    if kind == "async":
        handle = shop.app.task(on_rescue=shop.arepair, **options)(on_loop).enqueue(number=1)
    else:
        handle = shop.app.task(on_rescue=shop.repair, **options)(work_on).enqueue(number=1)
    shop.crash(handle)
    assert shop.app.run_due() == 0
    assert (handle.get().state, shop.status()) == (state, f"{state} by crashed")
    assert [(each.state, each.attempt) for each in shop.rescued] == [(state, 1)]
    shop.app.run_due()
    assert len(shop.rescued) == 1
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_completed"]


def test_the_hook_runs_without_an_attempt_for_a_rescued_job_that_an_operator_cancels(shop: Shop) -> None:
    handle = shop.app.task(on_rescue=shop.repair)(work_on).enqueue(number=1)
    shop.crash(handle)
    assert handle.cancel() == "cancelled"
    shop.app.run_due()
    assert shop.status() == "cancelled by crashed"


def test_the_hook_runs_once_before_the_attempt_of_a_job_that_an_operator_reopened(shop: Shop) -> None:
    @shop.app.task(on_rescue=shop.repair, on_crash="fail")
    def work(number: int) -> int:
        return number

    handle = work.enqueue(number=1)
    shop.crash(handle)
    handle.retry()
    shop.app.run_due()
    assert (handle.result(), shop.status(), [each.state for each in shop.rescued]) == (1, "repaired", ["running"])


def test_one_run_due_runs_the_hooks_of_many_jobs(shop: Shop) -> None:
    work = shop.app.task(on_rescue=shop.repair, on_crash="fail")(work_on)
    for _ in range(25):
        shop.crash(work.enqueue(number=1))
    shop.app.run_due()
    assert len({each.id for each in shop.rescued}) == 25


# hooks that cannot work are refused at registration


async def no_job(number: int) -> None: ...


async def ahook(connection: Any, job: RescuedJob) -> None: ...


def hook(connection: Any, job: RescuedJob) -> None: ...


def yields(connection: Any, job: RescuedJob) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("handler", "on_rescue", "remedy"),
    [
        (no_job, hook, "write `async def repair"),
        (work_on, ahook, "write `def repair"),
        (work_on, "repair", "use a function"),
        (work_on, Shop, "use a function"),
        (work_on, yields, "use a function"),
        (work_on, lambda connection: None, "called with a connection and a RescuedJob"),
        (work_on, lambda: None, "called with a connection and a RescuedJob"),
    ],
)
def test_a_hook_that_cannot_work_is_refused_at_registration(handler: Any, on_rescue: Any, remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        App("memory://").task(on_rescue=on_rescue)(handler)


def test_a_hook_may_have_further_parameters_with_defaults() -> None:
    def repair(connection: object, job: object, *, retries: int = 3) -> None: ...

    app = App("memory://")
    app.task(on_rescue=repair)(work_on)
    definition = app.registry.get("work_on")
    assert definition is not None
    assert definition.on_rescue is repair


def test_a_store_without_transactions_is_refused_at_the_start_and_by_the_check() -> None:
    app = App("memory://")
    app.task(on_rescue=hook)(work_on)
    for start in (app.run_due, lambda: asyncio.run(enter(app))):
        with pytest.raises(ConfigurationError, match=r"task work_on: on_rescue .* the memory store has none"):
            start()
    assert [(each.level, "on_rescue" in each.message) for each in app.check() if each.name == "tasks"] == [("error", True)]


async def enter(app: App) -> None:
    async with app.worker():
        raise AssertionError("it must not start")


# the engine


def operating(repair: Callable[[Claim], Any], test: Callable[[Bench], Any]) -> None:
    """Run a test on a bench whose only handler must not run."""

    async def work() -> None:
        raise AssertionError("the handler must not run")

    async def act() -> None:
        bench = Bench(work)
        bench.executor._hooks = AlwaysDueHooks(repair)  # type: ignore[assignment]
        bench.executor.start(claim(bench.registry.get("work")))  # type: ignore[arg-type]
        await test(bench)

    run(act())


async def never(_: Claim) -> None:
    await forever()


@pytest.mark.parametrize("why", [Stop.DRAINED, Stop.LATE])
def test_a_worker_that_ends_releases_a_job_whose_hook_is_running_free_of_charge(why: Stop) -> None:
    async def test(bench: Bench) -> None:
        await until(lambda: any(each.is_running_hook for each in bench.executor.running.values()))
        bench.executor.stop_all(why)
        await bench.until_ended()
        moved = bench.ended[0].transition
        assert moved is not None
        assert (moved.to, moved.record, moved.rescued, moved.failures) == (State.AVAILABLE, None, None, 0)

    operating(never, test)


def test_a_job_stopped_during_its_hook_moves_as_the_reason_requires() -> None:
    expected = {
        Stop.CANCELLED: (State.CANCELLED, AttemptOutcome.CANCELLED),
        Stop.STALLED: (State.AVAILABLE, AttemptOutcome.STALLED),
        Stop.TIMED_OUT: (State.AVAILABLE, AttemptOutcome.TIMED_OUT),
    }
    for why, (to, record) in expected.items():

        async def test(bench: Bench, why: Stop = why, to: State = to, record: AttemptOutcome = record) -> None:
            await until(lambda: any(each.is_running_hook for each in bench.executor.running.values()))
            bench.executor.stop_all(why)
            await bench.until_ended()
            moved = bench.ended[0].transition
            assert moved is not None
            assert (moved.to, moved.record) == (to, record)

        operating(never, test)


def test_no_handler_starts_after_a_hook_that_ignored_its_cancellation() -> None:
    async def insist(_: Claim) -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            return

    async def test(bench: Bench) -> None:
        await until(lambda: any(each.is_running_hook for each in bench.executor.running.values()))
        bench.executor.stop_all(Stop.CANCELLED)
        await bench.until_ended()
        assert bench.ended[0].transition is not None
        assert bench.ended[0].transition.to is State.CANCELLED

    operating(insist, test)


def test_l8_a_hook_whose_store_is_unreachable_costs_no_attempt() -> None:
    async def repair(_: Claim) -> None:
        raise StoreUnavailable("transaction: not reached")

    async def test(bench: Bench) -> None:
        await bench.until_ended()
        moved = bench.ended[0].transition
        assert moved is not None
        assert (moved.to, moved.delay, moved.record, moved.failures) == (State.AVAILABLE, None, None, 0)
        assert bench.ended[0].pause == 7.0

    operating(repair, test)


def test_a_job_that_was_lost_during_its_hook_is_not_settled() -> None:
    async def repair(_: Claim) -> None:
        raise JobLost("taken")

    async def test(bench: Bench) -> None:
        await bench.until_ended()
        assert bench.ended[0].transition is None

    operating(repair, test)


# the hooks of one worker


class HooksBench:
    """The rescue hooks of a worker, on a file with one job whose hook is owed."""

    def __init__(self, folder: Path, on_rescue: Callable[..., Any], *, margin: float = 60.0) -> None:
        self.shop, self.log = Shop(folder), Log()
        handler = no_job if asyncio.iscoroutinefunction(on_rescue) else work_on
        task = self.shop.app.task(name="work", on_rescue=on_rescue, on_crash="fail")(handler)
        self.shop.crash(task.enqueue(number=1))
        self.store = self.shop.app._connections.store
        self.may_start, self.now = True, 100.0
        lease = WorkerLease(lambda: self.now)
        lease.grant(UUID(int=1), "worker-2", float("inf"))
        self.hooks = RescueHooks(
            Environment(self.store, MemoryTransport(), FakeClock(), FakeChance(), self.log.events),
            self.shop.app.registry,
            Settings(url="memory://", timing=LeaseTiming(ttl=60.0, beat=1.0, margin=margin), recovery_interval=5.0),
            lease,
            threads=1,
            may_start=lambda: self.may_start,
        )

    async def owed(self) -> Claim:
        """Return a claim of the job, as if its attempt were about to start."""
        (row,) = await self.store.owed_hooks(["work"], 1, pause=0.0)
        policy = self.shop.app.registry.policies()["work"]
        active = structs.replace(claim(define(no_job), job=row.id).job, task="work", token=row.token, policy=policy)
        return Claim(job=active, payload=row.payload, rescue=row.rescue, hook_due_at=row.hook_due_at)

    async def row(self) -> JobRecord:
        (row,) = await self.store.list(JobFilter())
        return row


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[..., HooksBench]]:
    made: list[HooksBench] = []

    def make(on_rescue: Callable[..., Any], **options: Any) -> HooksBench:
        made.append(HooksBench(tmp_path, on_rescue, **options))
        return made[-1]

    yield make
    for each in made:
        each.hooks.close()
        each.shop.app.close()


def test_a_hook_that_waits_too_long_is_rolled_back(make_bench: Any) -> None:
    async def repair(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'never'")
        await forever()

    bench = make_bench(repair, margin=0.05)

    async def test() -> None:
        with pytest.raises(HoldfastError, match=r"0.05 s"):
            await bench.hooks.run_before_attempt(await bench.owed())
        assert bench.shop.status() == "busy"
        assert (await bench.row()).hook_due_at is not None
        (failed,) = bench.log.of("job.rescue_hook_failed")
        assert (failed["error"], failed["worker"], failed["attempt"], failed["reason"]) == (
            "HoldfastError",
            "worker-2",
            1,
            "crashed",
        )

    asyncio.run(test())


def test_a_timeout_that_the_hook_itself_raises_is_passed_on(make_bench: Any) -> None:
    async def repair(connection: Any, job: RescuedJob) -> None:
        raise TimeoutError("a service of mine")

    bench = make_bench(repair)

    async def test() -> None:
        with pytest.raises(TimeoutError, match="of mine"):
            await bench.hooks.run_before_attempt(await bench.owed())

    asyncio.run(test())


def test_a_cancelled_hook_is_rolled_back_and_has_not_failed(make_bench: Any) -> None:
    started = asyncio.Event()

    async def repair(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'never'")
        started.set()
        await forever()

    bench = make_bench(repair)

    async def test() -> None:
        running = beside(bench.hooks.run_before_attempt(await bench.owed()))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert bench.shop.status() == "busy"
        assert bench.log.names() == []

    asyncio.run(test())


def test_a_job_does_not_move_before_its_hook_in_a_thread_has_ended(make_bench: Any) -> None:
    held = Held()

    def repair(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'repaired'")
        held.wait_here()

    bench = make_bench(repair)

    async def test() -> None:
        running = beside(bench.hooks.run_before_attempt(await bench.owed()))
        await until(held.come.is_set)
        running.cancel()
        await turns()
        assert not running.done()
        held.set()
        await running
        assert bench.shop.status() == "repaired"

    asyncio.run(test())


def test_a_hook_without_an_attempt_in_a_thread_keeps_no_worker_from_ending(make_bench: Any) -> None:
    held = Held()

    def repair(connection: Any, job: RescuedJob) -> None:
        held.wait_here()

    bench = make_bench(repair)

    async def test() -> None:
        stepping = beside(bench.hooks.step())
        await until(held.come.is_set)
        stepping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stepping
        held.set()

    asyncio.run(test())


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_hook_that_runs_on_after_it_was_rolled_back_is_unresponsive(make_bench: Any, is_isolated: bool) -> None:
    held = Held()

    def repair(connection: Any, job: RescuedJob) -> None:
        held.wait_here()

    bench = make_bench(repair, margin=5.0)

    async def test() -> None:
        job = (await bench.row()).id
        running = beside(bench.hooks.step() if is_isolated else bench.hooks.run_before_attempt(await bench.owed()))
        await until(held.come.is_set)
        bench.now += 5.0 + 20.0
        assert bench.hooks.unresponsive(20.0) == ()
        bench.now += 0.1
        assert bench.hooks.unresponsive(20.0) == (job,)
        held.set()
        await running
        assert bench.hooks.unresponsive(20.0) == ()

    asyncio.run(test())


def test_a_hook_that_is_no_longer_due_loses_the_job_and_is_not_a_failure(make_bench: Any) -> None:
    async def repair(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = status || '!'")

    bench = make_bench(repair)

    async def test() -> None:
        owed = await bench.owed()
        await bench.hooks.run_before_attempt(owed)
        with pytest.raises(JobLost):
            await bench.hooks.run_before_attempt(owed)
        assert bench.shop.status() == "busy!"
        assert bench.log.names() == ["job.rescue_hook_completed"]

    asyncio.run(test())


def test_a_worker_without_a_right_to_act_starts_no_hook(make_bench: Any) -> None:
    called = list[UUID]()

    async def repair(connection: Any, job: RescuedJob) -> None:
        called.append(job.id)

    bench = make_bench(repair)

    async def test() -> None:
        bench.may_start = False
        assert await bench.hooks.step() == 5.0
        assert called == []
        bench.may_start = True
        assert await bench.hooks.step() == 0.0
        assert len(called) == 1
        assert await bench.hooks.step() == 5.0
        assert bench.hooks.is_idle

    asyncio.run(test())


def test_has_been_idle_reports_hooks_found_since_it_was_last_called(make_bench: Any) -> None:
    bench = make_bench(hook)

    async def test() -> None:
        assert not bench.hooks.has_been_idle()
        await bench.hooks.step()
        assert not bench.hooks.has_been_idle()
        await bench.hooks.step()
        assert bench.hooks.has_been_idle()
        assert not bench.hooks.has_been_idle()

    asyncio.run(test())


def test_a_hook_without_an_attempt_is_left_to_other_workers_when_the_store_is_unreachable(make_bench: Any) -> None:
    async def repair(connection: Any, job: RescuedJob) -> None:
        raise StoreUnavailable("not reached")

    bench = make_bench(repair)

    async def test() -> None:
        assert await bench.hooks.step() == 0.0
        assert await bench.hooks.step() == 5.0
        assert bench.log.names() == ["job.rescue_hook_failed"]
        assert (await bench.row()).hook_due_at is not None

    asyncio.run(test())


def test_no_hook_is_owed_without_a_due_time_a_rescue_and_a_definition() -> None:
    hooks = RescueHooks(
        Bench().environment,
        registry(define(no_job, name="hooked", on_rescue=ahook), define(no_job)),
        SETTINGS,
        WorkerLease(lambda: 0.0),
        threads=1,
        may_start=lambda: True,
    )
    now = datetime(2024, 5, 1, tzinfo=UTC)
    hooked = define(no_job, name="hooked", on_rescue=ahook)
    crash = Rescue(reason=RescueReason.CRASHED, worker="w", attempt=1, at=now)
    full = structs.replace(claim(hooked), rescue=crash, hook_due_at=now)
    assert hooks.has_hooks
    assert hooks.is_owed(full)
    assert not hooks.is_owed(structs.replace(full, hook_due_at=None))
    assert not hooks.is_owed(structs.replace(full, rescue=None))
    assert not hooks.is_owed(structs.replace(claim(define(no_job)), rescue=crash, hook_due_at=now))


def test_threads_of_hooks_are_named_like_those_of_handlers(make_bench: Any) -> None:
    names = list[str]()

    def repair(connection: Any, job: RescuedJob) -> None:
        names.append(threading.current_thread().name)

    bench = make_bench(repair)

    async def test() -> None:
        await bench.hooks.step()
        assert names[0].startswith("holdfast-handler")  # Stacks of threads with this name are dumped.

    asyncio.run(test())
