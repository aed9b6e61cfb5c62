"""``on_rescue``: the user's own row is healed before the next attempt, or by the hook alone when none follows."""

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
from tests.engine.support import LEASE, SETTINGS, Bench, Doctor, Held, Log, claim, forever, registry, turns, until
from tests.event_loops import beside, run

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


class Shop:
    """An App on a file with a table of its own: ``orders``, one row for each job, which its handlers set to "busy"."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "shop.db"
        self.app = App(f"sqlite:///{self.path}")
        self.app.migrate()
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.told: list[RescuedJob] = []
        self.app.on("*")(lambda event: self.heard.append((event.name.value, event.fields)))
        self.sql("CREATE TABLE orders (number INTEGER PRIMARY KEY, status TEXT)")

    def sql(self, statement: str, *values: object) -> list[Any]:
        """A statement that waits for nobody."""
        with closing(sqlite3.connect(self.path, isolation_level=None, timeout=0)) as connection:
            return connection.execute(statement, values).fetchall()

    def status(self, number: int = 1) -> str:
        ((status,),) = self.sql("SELECT status FROM orders WHERE number = ?", number)
        return str(status)

    def heal(self, connection: Any, job: RescuedJob) -> None:
        """What a hook does."""
        self.told.append(job)
        status = "healed" if job.state is State.RUNNING else f"{job.state} by {job.reason}"
        connection.execute("UPDATE orders SET status = ? WHERE number = ?", (status, job.payload["number"]))

    async def aheal(self, connection: Any, job: RescuedJob) -> None:
        self.heal(connection, job)

    def crash(self, handle: Handle, why: LeaseEnd = CRASH) -> None:
        """Somebody's worker dies while the job runs, and leaves its row busy."""
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
        return [name for name, _ in self.heard if name.startswith(prefix)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.app.close()


def stay_open(shop: Shop) -> None:
    """Fail if anybody has the file's lock."""
    shop.sql("UPDATE orders SET status = status || ' and free' WHERE status = 'healed'")


# before the next attempt


@pytest.mark.parametrize("kind", ["async", "thread", "process"])
def test_the_row_is_healed_when_the_next_attempt_starts_and_nothing_is_locked_then(shop: Shop, kind: str) -> None:
    async def on_loop(job: Job, number: int) -> str:
        stay_open(shop)
        return f"{job.attempt} {job.rescued}"

    def in_thread(job: SyncJob, number: int) -> str:
        stay_open(shop)
        return f"{job.attempt} {job.rescued}"

    if kind == "async":
        handle = shop.app.task(on_rescue=shop.aheal)(on_loop).enqueue(number=1)
    else:
        handle = shop.app.task(on_rescue=shop.heal, process=kind == "process")(in_thread).enqueue(number=1)
    shop.crash(handle)
    assert handle.get().rescued == "crashed"
    assert shop.app.run_due() == 1
    assert handle.result() == "2 crashed"
    assert shop.status() == "healed and free"
    (told,) = shop.told
    assert (told.id, told.task, told.payload, told.checkpoint) == (handle.id, handle.get().task, {"number": 1}, None)
    assert (told.reason, told.worker, told.attempt, told.state) == ("crashed", "worker-1", 1, "running")
    assert told.rescued_at == handle.get().attempts[0].ended_at
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_completed"]


def test_a_job_that_nobody_rescued_is_never_healed(shop: Shop) -> None:
    @shop.app.task(on_rescue=shop.heal, max_attempts=2, backoff=Backoff.fixed(0))
    def work(job: SyncJob, number: int) -> str | None:
        if job.attempt == 1:
            raise ValueError(number)
        return job.rescued

    handle = work.enqueue(number=1)
    assert shop.app.run_due() == 2
    assert (handle.result(), handle.get().rescued, shop.told) == (None, None, [])


def test_a_job_of_a_task_without_a_hook_says_that_it_was_rescued(shop: Shop) -> None:
    @shop.app.task
    async def work(job: Job, number: int) -> str | None:
        return job.rescued

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert handle.result() == "crashed"
    assert [fields.get("rescued") for name, fields in shop.heard if name == "job.claimed"] == ["crashed"]
    assert handle.get().rescued == "crashed"


def test_a_payload_that_no_longer_fits_still_heals_its_row(shop: Shop) -> None:
    @shop.app.task(name="work")
    def older(number: int) -> None: ...

    shop.app.registry._tasks["work"] = structs.replace(
        define(later_work, name="work", on_rescue=shop.heal),
    )
    handle = older.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.get().reason, shop.status()) == (Reason.PAYLOAD_INVALID, "healed")


def later_work(other: str) -> None:
    """The handler of a later release."""


# what a hook raises


def test_a_hook_that_raises_fails_the_attempt_and_is_called_again_before_the_next(shop: Shop) -> None:
    ran = list[int]()

    def heal(connection: Any, job: RescuedJob) -> None:
        shop.heal(connection, job)
        if len(shop.told) < 3:
            raise KeyError(job.payload["number"])

    @shop.app.task(on_rescue=heal, max_attempts=3, backoff=Backoff.fixed(0))
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
    assert shop.status() == "healed"
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_failed", "job.rescue_hook_failed", "job.rescue_hook_completed"]
    assert [told.attempt for told in shop.told] == [1, 1, 1]


def test_a_hook_that_always_raises_spends_the_attempts_and_is_then_tried_alone_and_not_at_once_again(shop: Shop) -> None:
    def heal(connection: Any, job: RescuedJob) -> None:
        shop.heal(connection, job)
        raise KeyError("always")

    @shop.app.task(on_rescue=heal, max_attempts=2, backoff=Backoff.fixed(0))
    def work(number: int) -> None:
        raise AssertionError("it must not run")

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    view = handle.get()
    assert (view.state, view.reason, view.error and view.error.type) == ("failed", "HANDLER_ERROR", "KeyError")
    assert shop.status() == "busy"
    assert [told.state for told in shop.told][:2] == ["running", "running"]
    assert [told.state for told in shop.told][2:] in ([], ["failed"])  # perhaps it had ended before it failed
    shop.app.run_due()
    shop.app.run_due()
    assert [told.state for told in shop.told] == ["running", "running", "failed"]


@pytest.mark.parametrize(("answer", "state"), [(Snooze("1h"), "scheduled"), (Fail("hopeless"), "failed")])
def test_a_hook_may_answer_as_a_handler_may(shop: Shop, answer: Exception, state: str) -> None:
    def heal(connection: Any, job: RescuedJob) -> None:
        shop.told.append(job)
        raise answer

    handle = shop.app.task(on_rescue=heal)(work_on).enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.get().state, shop.status()) == (state, "busy")


def work_on(number: int) -> None:
    raise AssertionError("it must not run")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(4), asyncio.CancelledError()])
def test_no_exception_of_a_hook_ends_its_worker(shop: Shop, error: BaseException) -> None:
    async def heal(connection: Any, job: RescuedJob) -> None:
        shop.told.append(job)
        if len(shop.told) == 1:
            raise error

    @shop.app.task(on_rescue=heal, backoff=Backoff.fixed(0))
    async def work(number: int) -> int:
        return number

    handle = work.enqueue(number=1)
    shop.crash(handle)
    shop.app.run_due()
    assert (handle.result(), handle.get().failures) == (1, 1)


# the hook alone


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize(
    ("options", "state"),
    [({"max_crashes": 1}, "failed"), ({"on_crash": "fail"}, "failed"), ({"on_crash": "hold"}, "held")],
)
def test_a_job_that_ends_instead_is_healed_by_the_hook_alone(shop: Shop, kind: str, options: dict[str, Any], state: str) -> None:
    async def on_loop(number: int) -> None:
        raise AssertionError("it must not run")

    if kind == "async":
        handle = shop.app.task(on_rescue=shop.aheal, **options)(on_loop).enqueue(number=1)
    else:
        handle = shop.app.task(on_rescue=shop.heal, **options)(work_on).enqueue(number=1)
    shop.crash(handle)
    assert shop.app.run_due() == 0
    assert (handle.get().state, shop.status()) == (state, f"{state} by crashed")
    assert [(told.state, told.attempt) for told in shop.told] == [(state, 1)]
    shop.app.run_due()
    assert len(shop.told) == 1
    assert shop.names("job.rescue_hook") == ["job.rescue_hook_completed"]


def test_one_that_an_operator_cancels_while_it_waits_is_healed_alone_too(shop: Shop) -> None:
    handle = shop.app.task(on_rescue=shop.heal)(work_on).enqueue(number=1)
    shop.crash(handle)
    assert handle.cancel() == "cancelled"
    shop.app.run_due()
    assert shop.status() == "cancelled by crashed"


def test_one_that_an_operator_reopens_first_is_healed_before_its_attempt_only(shop: Shop) -> None:
    @shop.app.task(on_rescue=shop.heal, on_crash="fail")
    def work(number: int) -> int:
        return number

    handle = work.enqueue(number=1)
    shop.crash(handle)
    handle.retry()
    shop.app.run_due()
    assert (handle.result(), shop.status(), [told.state for told in shop.told]) == (1, "healed", ["running"])


def test_many_are_healed_in_one_run(shop: Shop) -> None:
    work = shop.app.task(on_rescue=shop.heal, on_crash="fail")(work_on)
    for _ in range(25):
        shop.crash(work.enqueue(number=1))
    shop.app.run_due()
    assert len({told.id for told in shop.told}) == 25


# what can be seen to go wrong is refused


async def no_job(number: int) -> None: ...


async def ahook(connection: Any, job: RescuedJob) -> None: ...


def hook(connection: Any, job: RescuedJob) -> None: ...


def yields(connection: Any, job: RescuedJob) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("handler", "on_rescue", "said"),
    [
        (no_job, hook, "write `async def repair"),
        (work_on, ahook, "write `def repair"),
        (work_on, "heal", "use a function"),
        (work_on, Shop, "use a function"),
        (work_on, yields, "use a function"),
        (work_on, lambda connection: None, "called with a connection and a RescuedJob"),
        (work_on, lambda: None, "called with a connection and a RescuedJob"),
    ],
)
def test_a_hook_that_cannot_work_is_refused_at_registration(handler: Any, on_rescue: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        App("memory://").task(on_rescue=on_rescue)(handler)


def test_a_hook_may_want_more_than_two_if_it_does_not_need_it() -> None:
    def heal(connection: object, job: object, *, retries: int = 3) -> None: ...

    app = App("memory://")
    app.task(on_rescue=heal)(work_on)
    definition = app.registry.get("work_on")
    assert definition is not None
    assert definition.on_rescue is heal


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


# the engine's part


def operating(heal: Callable[[Claim], Any], test: Callable[[Bench], Any]) -> None:
    """A bench whose only handler must not run."""

    async def work() -> None:
        raise AssertionError("the handler must not run")

    async def act() -> None:
        bench = Bench(work)
        bench.executor._hooks = Doctor(heal)  # type: ignore[assignment]
        bench.executor.start(claim(bench.registry.get("work")))  # type: ignore[arg-type]
        await test(bench)

    run(act())


async def never(_: Claim) -> None:
    await forever()


@pytest.mark.parametrize("why", [Stop.DRAINED, Stop.LATE])
def test_a_worker_that_has_to_end_gives_back_free_what_it_was_about_to_heal(why: Stop) -> None:
    async def test(bench: Bench) -> None:
        await until(lambda: any(each.is_running_hook for each in bench.executor.running.values()))
        bench.executor.stop_all(why)
        await bench.until_ended()
        moved = bench.ended[0].transition
        assert moved is not None
        assert (moved.to, moved.record, moved.rescued, moved.failures) == (State.AVAILABLE, None, None, 0)

    operating(never, test)


def test_stopped_for_another_reason_it_moves_as_for_that() -> None:
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


def test_a_hook_that_takes_no_notice_of_being_stopped_starts_no_handler() -> None:
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


def test_l8_a_store_that_is_away_costs_no_attempt() -> None:
    async def heal(_: Claim) -> None:
        raise StoreUnavailable("transaction: not reached")

    async def test(bench: Bench) -> None:
        await bench.until_ended()
        moved = bench.ended[0].transition
        assert moved is not None
        assert (moved.to, moved.delay, moved.record, moved.failures) == (State.AVAILABLE, None, None, 0)
        assert bench.ended[0].pause == 7.0

    operating(heal, test)


def test_a_job_that_was_lost_meanwhile_is_not_settled() -> None:
    async def heal(_: Claim) -> None:
        raise JobLost("taken")

    async def test(bench: Bench) -> None:
        await bench.until_ended()
        assert bench.ended[0].transition is None

    operating(heal, test)


# a healer by itself


class Ward:
    """A healer on a file, and a job whose hook is owed."""

    def __init__(self, folder: Path, on_rescue: Callable[..., Any], *, margin: float = 60.0) -> None:
        self.shop, self.log = Shop(folder), Log()
        handler = no_job if asyncio.iscoroutinefunction(on_rescue) else work_on
        task = self.shop.app.task(name="work", on_rescue=on_rescue, on_crash="fail")(handler)
        self.shop.crash(task.enqueue(number=1))
        self.store = self.shop.app._connections.store
        self.may_start, self.now = True, 100.0
        lease = WorkerLease(lambda: self.now)
        lease.grant(UUID(int=1), "worker-2", float("inf"))
        self.healer = RescueHooks(
            Environment(self.store, MemoryTransport(), FakeClock(), FakeChance(), self.log.events),
            self.shop.app.registry,
            Settings(url="memory://", timing=LeaseTiming(ttl=60.0, beat=1.0, margin=margin), recovery_interval=5.0),
            lease,
            threads=1,
            may_start=lambda: self.may_start,
        )

    async def owed(self) -> Claim:
        """As if it were about to start."""
        (row,) = await self.store.owed_hooks(["work"], 1, pause=0.0)
        policy = self.shop.app.registry.policies()["work"]
        hold = structs.replace(claim(define(no_job), job=row.id).job, task="work", token=row.token, policy=policy)
        return Claim(job=hold, payload=row.payload, rescue=row.rescue, hook_due_at=row.hook_due_at)

    async def row(self) -> JobRecord:
        (row,) = await self.store.list(JobFilter())
        return row


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Callable[..., Ward]]:
    made: list[Ward] = []

    def make(on_rescue: Callable[..., Any], **options: Any) -> Ward:
        made.append(Ward(tmp_path, on_rescue, **options))
        return made[-1]

    yield make
    for each in made:
        each.healer.close()
        each.shop.app.close()


def test_a_hook_that_waits_too_long_is_rolled_back(ward: Any) -> None:
    async def heal(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'never'")
        await forever()

    here = ward(heal, margin=0.05)

    async def test() -> None:
        with pytest.raises(HoldfastError, match=r"0.05 s"):
            await here.healer.run_before_attempt(await here.owed())
        assert here.shop.status() == "busy"
        assert (await here.row()).hook_due_at is not None
        (failed,) = here.log.of("job.rescue_hook_failed")
        assert (failed["error"], failed["worker"], failed["attempt"], failed["reason"]) == (
            "HoldfastError",
            "worker-2",
            1,
            "crashed",
        )

    asyncio.run(test())


def test_a_time_out_of_the_hooks_own_is_its_own(ward: Any) -> None:
    async def heal(connection: Any, job: RescuedJob) -> None:
        raise TimeoutError("a service of mine")

    here = ward(heal)

    async def test() -> None:
        with pytest.raises(TimeoutError, match="of mine"):
            await here.healer.run_before_attempt(await here.owed())

    asyncio.run(test())


def test_a_cancelled_hook_is_rolled_back_and_has_not_failed(ward: Any) -> None:
    begun = asyncio.Event()

    async def heal(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'never'")
        begun.set()
        await forever()

    here = ward(heal)

    async def test() -> None:
        healing = beside(here.healer.run_before_attempt(await here.owed()))
        await begun.wait()
        healing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await healing
        assert here.shop.status() == "busy"
        assert here.log.names() == []

    asyncio.run(test())


def test_a_hook_in_a_thread_is_waited_for_before_its_job_may_move(ward: Any) -> None:
    held = Held()

    def heal(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = 'healed'")
        held.wait_here()

    here = ward(heal)

    async def test() -> None:
        healing = beside(here.healer.run_before_attempt(await here.owed()))
        await until(held.come.is_set)
        healing.cancel()
        await turns()
        assert not healing.done()
        held.set()
        await healing
        assert here.shop.status() == "healed"

    asyncio.run(test())


def test_a_hook_alone_in_a_thread_keeps_no_worker_from_ending(ward: Any) -> None:
    held = Held()

    def heal(connection: Any, job: RescuedJob) -> None:
        held.wait_here()

    here = ward(heal)

    async def test() -> None:
        stepping = beside(here.healer.step())
        await until(held.come.is_set)
        stepping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stepping
        held.set()

    asyncio.run(test())


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_hook_that_runs_on_after_it_was_rolled_back_is_deaf(ward: Any, is_isolated: bool) -> None:
    held = Held()

    def heal(connection: Any, job: RescuedJob) -> None:
        held.wait_here()

    here = ward(heal, margin=5.0)

    async def test() -> None:
        job = (await here.row()).id
        healing = beside(here.healer.step() if is_isolated else here.healer.run_before_attempt(await here.owed()))
        await until(held.come.is_set)
        here.now += 5.0 + 20.0
        assert here.healer.unresponsive(20.0) == ()
        here.now += 0.1
        assert here.healer.unresponsive(20.0) == (job,)
        held.set()
        await healing
        assert here.healer.unresponsive(20.0) == ()

    asyncio.run(test())


def test_a_mark_that_is_gone_loses_the_job_and_is_no_failure(ward: Any) -> None:
    async def heal(connection: Any, job: RescuedJob) -> None:
        connection.execute("UPDATE orders SET status = status || '!'")

    here = ward(heal)

    async def test() -> None:
        owed = await here.owed()
        await here.healer.run_before_attempt(owed)
        with pytest.raises(JobLost):
            await here.healer.run_before_attempt(owed)
        assert here.shop.status() == "busy!"
        assert here.log.names() == ["job.rescue_hook_completed"]

    asyncio.run(test())


def test_a_worker_without_a_right_to_act_starts_no_hook(ward: Any) -> None:
    called = list[UUID]()

    async def heal(connection: Any, job: RescuedJob) -> None:
        called.append(job.id)

    here = ward(heal)

    async def test() -> None:
        here.may_start = False
        assert await here.healer.step() == 5.0
        assert called == []
        here.may_start = True
        assert await here.healer.step() == 0.0
        assert len(called) == 1
        assert await here.healer.step() == 5.0
        assert here.healer.is_idle

    asyncio.run(test())


def test_whoever_asks_whether_nothing_is_owed_is_told_what_was_found_since_the_last_question(ward: Any) -> None:
    here = ward(hook)

    async def test() -> None:
        assert not here.healer.has_been_idle()
        await here.healer.step()
        assert not here.healer.has_been_idle()
        await here.healer.step()
        assert here.healer.has_been_idle()
        assert not here.healer.has_been_idle()

    asyncio.run(test())


def test_a_hook_alone_whose_store_is_away_is_tried_again_by_others_later(ward: Any) -> None:
    async def heal(connection: Any, job: RescuedJob) -> None:
        raise StoreUnavailable("not reached")

    here = ward(heal)

    async def test() -> None:
        assert await here.healer.step() == 0.0
        assert await here.healer.step() == 5.0
        assert here.log.names() == ["job.rescue_hook_failed"]
        assert (await here.row()).hook_due_at is not None

    asyncio.run(test())


def test_nothing_is_owed_without_a_mark_a_rescue_and_a_hook() -> None:
    healer = RescueHooks(
        Bench().environment,
        registry(define(no_job, name="heals", on_rescue=ahook), define(no_job)),
        SETTINGS,
        WorkerLease(lambda: 0.0),
        threads=1,
        may_start=lambda: True,
    )
    now = datetime(2024, 5, 1, tzinfo=UTC)
    heals = define(no_job, name="heals", on_rescue=ahook)
    told = Rescue(reason=RescueReason.CRASHED, worker="w", attempt=1, at=now)
    full = structs.replace(claim(heals), rescue=told, hook_due_at=now)
    assert healer.has_hooks
    assert healer.is_owed(full)
    assert not healer.is_owed(structs.replace(full, hook_due_at=None))
    assert not healer.is_owed(structs.replace(full, rescue=None))
    assert not healer.is_owed(structs.replace(claim(define(no_job)), rescue=told, hook_due_at=now))


def test_threads_of_hooks_are_named_like_those_of_handlers(ward: Any) -> None:
    names = list[str]()

    def heal(connection: Any, job: RescuedJob) -> None:
        names.append(threading.current_thread().name)

    here = ward(heal)

    async def test() -> None:
        await here.healer.step()
        assert names[0].startswith("holdfast-handler")  # whose stacks are dumped

    asyncio.run(test())
