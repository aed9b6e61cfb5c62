"""A handler's steps run once, its sleeps and waits free its slot, and a change of its code is found before anything runs twice."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from holdfast import ConfigurationError, HoldfastError, JobLost, PayloadInvalid, PayloadTooLarge, Unsupported
from holdfast._core import steps as limits
from holdfast._core.job import AttemptOutcome, HeldFor, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.steps import Signal, SignalAnswer, StepRecord
from holdfast._engine.client.client import Client
from holdfast._engine.runners.running import Stop
from holdfast._engine.tasks import steps as step_log
from holdfast._engine.tasks.context import Job, SyncJob
from holdfast._engine.tasks.registry import define
from holdfast._engine.tasks.steps import Suspended
from tests.engine.support import LEASE, TIMING, Bench, until

KINDS = ("loop", "thread")


class Shop:
    """The world outside of the job: every effect that a step has had."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.fails = 1
        self.seen: list[Any] = []

    def charge(self, item: str = "book", *, price: int = 1) -> dict[str, Any]:
        self.effects.append(f"charge {item}")
        return {"item": item, "price": price, "sizes": (1, 2)}

    async def ship(self, item: str) -> str:
        self.effects.append(f"ship {item}")
        return item.upper()

    def fail(self) -> None:
        self.fails -= 1
        if self.fails >= 0:
            raise ValueError("not yet")


async def opened(*handlers: Callable[..., Any]) -> tuple[Bench, UUID]:
    """Return a worker with one job of the first handler."""
    bench = Bench(*handlers)
    (job,) = await bench.open((handlers[0].__name__, b"{}"))
    return bench, job


async def attempt(bench: Bench) -> None:
    """Run one attempt of the job that is due, to its settle."""
    count = len(bench.ended)
    await bench.exchange.step()
    await bench.until_ended(count + 1)
    await bench.settle()


async def attempt_through_outage(bench: Bench) -> None:
    """Run one attempt while the store is away at times: the tries come as time passes."""
    await bench.exchange.step()
    await until(lambda: bench.clock.advance(0.01) or bench.ended)
    await bench.settle()


async def passing(bench: Bench, seconds: float) -> None:
    """Let time pass while the lease is renewed."""
    bench.clock.advance(seconds)
    await bench.memory.open_lease(LEASE)
    bench.beat()


async def in_attempts(bench: Bench, count: int, pause: float = 10.0) -> None:
    """Run attempts, each some time after the one before."""
    for _ in range(count):
        await attempt(bench)
        await passing(bench, pause)


async def signal(bench: Bench, job: UUID, value: bytes, name: str = "approved") -> None:
    assert await bench.memory.signal(job, Signal(bench.chance.uuid4(), name, value)) is SignalAnswer.ACCEPTED


def changed(new: Callable[..., Any], old: str) -> Callable[..., Any]:
    """Return a handler under the name of the code that it replaces."""
    new.__name__ = new.__qualname__ = old
    return new


async def deployed(bench: Bench, handler: Callable[..., Any], **options: Any) -> None:
    """Replace the code of a task in a running worker."""
    task = define(handler, **options)
    bench.registry._tasks[task.name] = task


# steps


@pytest.mark.parametrize("kind", KINDS)
async def test_s22_a_step_runs_once_and_replays_equal(kind: str) -> None:
    shop = Shop()

    async def in_loop(job: Job) -> list[Any]:
        shop.seen.append(await job.step("charge", shop.charge, "pen", price=3))
        shop.seen.append(await job.step("ship", shop.ship, "pen"))
        shop.fail()
        return shop.seen

    def in_thread(job: SyncJob) -> list[Any]:
        shop.seen.append(job.step("charge", shop.charge, "pen", price=3))
        shop.seen.append(job.step("ship", shop.ship, "pen"))
        shop.fail()
        return shop.seen

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    await in_attempts(bench, 2)
    assert shop.effects == ["charge pen", "ship pen"]
    assert shop.seen == [{"item": "pen", "price": 3, "sizes": [1, 2]}, "PEN"] * 2
    row = await bench.row(job)
    assert (row.state, row.failures) == (State.COMPLETED, 1)
    assert (await bench.memory.steps(job)).records == ()
    assert bench.log.of("steps.unused") == []
    assert bench.store.calls.count("steps") == 2


async def test_s22_steps_of_one_name_are_known_by_their_use_and_their_order_may_differ_when_they_run_together() -> None:
    shop, orders = Shop(), [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]]

    async def work(item: str) -> str:
        if item == "b" and not shop.effects.count("b"):
            shop.effects.append("b")
            raise ValueError("b fails at first")
        shop.effects.append(item)
        return item

    async def handler(job: Job) -> list[str]:
        order = orders.pop(0)
        found = await asyncio.gather(*(job.step(item, work, item) for item in order), return_exceptions=True)
        twice = [await job.step("same", work, f"same {n}") for n in range(2)]
        if orders:
            raise ValueError(found, twice)
        return [*sorted(found), *twice]  # type: ignore[type-var]

    bench, job = await opened(handler)
    await in_attempts(bench, 3)
    assert (await bench.row(job)).result == b'["a","b","c","same 0","same 1"]'
    assert sorted(shop.effects) == ["a", "b", "b", "c", "same 0", "same 1"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_step_key_is_the_same_in_every_attempt_and_belongs_to_the_step(kind: str) -> None:
    keys, shop = list[str](), Shop()

    def note(job: Job | SyncJob) -> None:
        keys.append(job.step_key)
        shop.fail()

    async def in_loop(job: Job) -> None:
        await job.step("charge", shop.charge)
        await job.step("charge", note, job)
        with pytest.raises(HoldfastError, match=r"job\.step_key"):
            job.step_key  # noqa: B018 - it raises

    def in_thread(job: SyncJob) -> None:
        job.step("charge", shop.charge)
        job.step("charge", note, job)
        with pytest.raises(HoldfastError, match=r"job\.step_key"):
            job.step_key  # noqa: B018 - it raises

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    await in_attempts(bench, 2)
    assert keys == [f"{job}:charge:2"] * 2
    assert await state(bench, job) is State.COMPLETED


async def state(bench: Bench, job: UUID) -> State:
    return (await bench.row(job)).state


async def test_s22_a_lost_job_records_no_step_and_its_handler_ends() -> None:
    errors, shop = list[BaseException](), Shop()
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()
        for _ in range(2):
            try:
                await job.step("charge", shop.charge)
            except JobLost as error:
                errors.append(error)
        raise errors[0]

    bench, job = await opened(handler)
    await bench.exchange.step()
    await until(lambda: bench.executor.running)
    running = bench.executor.running[job]
    await bench.memory.end_lease(LEASE.id, why := LeaseEnd(RescueReason.CRASHED))
    await bench.memory.exchange([rescue(running.claim.job, why, jitter=0.0)])
    gate.set()
    await bench.until_ended()
    assert len(errors) == 2
    assert (await bench.memory.steps(job)).records == ()
    assert bench.ended[0].transition is None


async def test_a_step_waits_for_a_store_that_is_away_and_a_lost_answer_records_it_once() -> None:
    shop = Shop()

    async def handler(job: Job) -> None:
        await job.step("charge", shop.charge)

    bench, job = await opened(handler)
    bench.store.fail("steps", 2)
    bench.store.lose_answer("record_step")
    await attempt_through_outage(bench)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge book"])
    assert bench.store.calls.count("record_step") == 2
    assert job in bench.reports.moves


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_must_stop_does_not_wait_for_the_record_of_a_step(kind: str) -> None:
    shop = Shop()

    async def in_loop(job: Job) -> None:
        await job.step("charge", shop.charge)

    def in_thread(job: SyncJob) -> None:
        job.step("charge", shop.charge)

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    gate = bench.store.hold("record_step")
    await bench.exchange.step()
    await gate.entered.wait()
    bench.executor.stop(job, Stop.CANCELLED)
    await bench.until_ended()
    assert bench.ended[0].transition is not None
    assert bench.ended[0].transition.to is State.CANCELLED


async def test_a_plain_job_pays_nothing_for_steps() -> None:
    async def handler(job: Job) -> None:
        await job.progress(fraction=0.5)

    bench, job = await opened(handler)
    await attempt(bench)
    assert await state(bench, job) is State.COMPLETED
    assert not {"steps", "record_step", "take_signal"} & set(bench.store.calls)
    (run,) = bench.ended
    assert run.transition is not None
    assert not run.transition.forgets_steps


async def test_a_step_is_progress_of_its_job() -> None:
    shop = Shop()

    async def handler(job: Job) -> None:
        await job.step("charge", shop.charge)
        await bench.writer.step()

    bench = Bench(define(handler, progress_within="60s"))
    (job,) = await bench.open(("handler", b"{}"))
    await attempt(bench)
    row = await bench.row(job)
    assert row.last_progress_at is not None


async def test_a_result_of_a_step_is_json_of_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_log, "STEPS_LIMIT", 100)
    monkeypatch.setattr(step_log, "MOST_STEPS", 3)
    errors = list[BaseException]()

    async def handler(job: Job) -> None:
        for name, value in (("long", "x" * limits.STEP_LIMIT), ("set", object()), ("a", "x" * 60), ("b", "x" * 60), ("c", 1)):
            try:
                await job.step(name, lambda value=value: value)
            except PayloadInvalid as error:
                errors.append(error)
        await job.step("d", str, 1)
        try:
            await job.step("e", errors.clear)
        except PayloadTooLarge as error:
            errors.append(error)

    bench, job = await opened(handler)
    await attempt(bench)
    assert await state(bench, job) is State.COMPLETED
    kinds = [type(error) for error in errors]
    assert kinds == [PayloadTooLarge, PayloadInvalid, PayloadTooLarge, PayloadTooLarge]
    texts = [str(error) for error in errors]
    assert "step 'long': its result has 65,538 bytes" in texts[0]
    assert "step 'b' (use 1): with it, the steps of the job have 124 bytes" in texts[2]
    assert "has 3 steps, and may have no more" in texts[3]


@pytest.mark.parametrize("name", ["", ":sleep", "x" * 201, "a\nb"])
async def test_names_that_a_step_cannot_have_are_refused(name: str) -> None:
    errors = list[BaseException]()

    async def handler(job: Job) -> None:
        for call in (lambda: job.step(name, str), lambda: job.wait_for(name)):
            try:
                await call()
            except ConfigurationError as error:
                errors.append(error)

    bench, job = await opened(handler)
    await attempt(bench)
    assert (await state(bench, job), len(errors)) == (State.COMPLETED, 2)


async def test_a_store_without_steps_refuses_them_in_the_handler() -> None:
    async def handler(job: Job) -> None:
        await job.step("charge", str)

    bench, job = await opened(handler)

    class Bare:
        capabilities = bench.memory.capabilities

    bench.writer.steps._store = Bare()  # type: ignore[assignment]
    await attempt(bench)
    row = await bench.row(job)
    assert row.error is not None
    assert (row.error.type, row.failures) == (Unsupported.__name__, 1)


# changed code


def shopping(shop: Shop, *names: str, unordered: bool = False) -> Callable[..., Any]:
    """Return a handler that takes these steps, then fails as often as the shop asks."""

    async def handler(job: Job) -> list[Any]:
        found = [await job.step(name, shop.charge, name, unordered=unordered) for name in names]
        shop.fail()
        return found

    return handler


async def test_s22_a_renamed_step_holds_the_job_before_anything_runs_twice() -> None:
    shop = Shop()
    bench, job = await opened(shopping(shop, "charge", "mail"))
    await in_attempts(bench, 1)
    await deployed(bench, shopping(shop, "charge", "post"))
    await in_attempts(bench, 1)
    row = await bench.row(job)
    assert shop.effects == ["charge charge", "charge mail"]
    assert (row.state, row.held_for, row.failures) == (State.HELD, HeldFor.STEPS, 1)
    assert row.error is not None
    asked = "the code asks for step 'post' (use 1), which has no record, before step 'mail' (use 1), which has one"
    assert (row.error.type, row.error.message) == ("StepsChanged", asked)
    assert [fields["error"] for fields in bench.log.of("job.held")] == ["StepsChanged"]
    (cause,) = (await Client(bench.environment).explain(job)).causes
    assert (cause.code, asked in cause.message) == ("held", True)
    assert f"`holdfast jobs retry {job} --fresh`" in cause.remedy
    await bench.memory.reopen([job])
    await in_attempts(bench, 1)
    assert await state(bench, job) is State.HELD
    await bench.memory.reopen([job])
    await deployed(bench, shopping(shop, "charge", "mail"))
    await in_attempts(bench, 1)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge charge", "charge mail"])


async def test_a_fresh_retry_of_changed_code_does_all_of_its_work_again() -> None:
    shop = Shop()
    bench, job = await opened(shopping(shop, "charge"))
    await in_attempts(bench, 1)
    await deployed(bench, shopping(shop, "pay"))
    await in_attempts(bench, 1)
    assert await state(bench, job) is State.HELD
    await bench.memory.reopen([job], is_fresh=True)
    await in_attempts(bench, 1)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge charge", "charge pay"])


async def test_changed_code_of_a_task_that_restarts_forgets_its_steps_and_the_signals_in_them() -> None:
    shop = Shop()

    async def buy(job: Job) -> Any:
        await job.step("charge", shop.charge)
        return await job.wait_for("approved"), shop.fail()

    async def pay(job: Job) -> Any:
        await job.step("pay", shop.charge, "pen")
        return await job.wait_for("approved")

    bench, job = await opened(buy)
    await signal(bench, job, b'"for the book"')
    await in_attempts(bench, 1)
    await deployed(bench, changed(pay, "buy"), on_changed_steps="restart")
    await in_attempts(bench, 1)
    row = await bench.row(job)
    assert (row.state, row.failures, (await bench.memory.steps(job)).records) == (State.AVAILABLE, 2, ())
    await in_attempts(bench, 1)
    assert ((await bench.row(job)).awaits, shop.effects) == ("approved", ["charge book", "charge pen"])
    await signal(bench, job, b'"for the pen"')
    await in_attempts(bench, 1)
    assert (await bench.row(job)).result == b'"for the pen"'


@pytest.mark.parametrize("kind", KINDS)
async def test_changed_code_of_a_task_that_fails_is_not_retried(kind: str) -> None:
    shop = Shop()

    def in_thread(job: SyncJob) -> None:
        job.step("pay", shop.charge)

    bench, job = await opened(shopping(shop, "charge"))
    await in_attempts(bench, 1)
    new = shopping(shop, "pay") if kind == "loop" else changed(in_thread, "handler")
    await deployed(bench, new, on_changed_steps="fail")
    await in_attempts(bench, 1)
    row = await bench.row(job)
    assert (row.state, row.reason, shop.effects) == (State.FAILED, Reason.STEPS_CHANGED, ["charge charge"])
    assert row.error is not None
    assert row.error.message.startswith("the code asks for step 'pay'")


async def test_unordered_steps_are_not_compared_and_unused_records_are_reported() -> None:
    shop = Shop()
    bench, job = await opened(shopping(shop, "a", "b", unordered=True))
    await in_attempts(bench, 1)
    await deployed(bench, shopping(shop, "c", "a", unordered=True))
    await in_attempts(bench, 1)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge a", "charge b", "charge c"])
    assert bench.log.of("steps.unused") == [{"job": job, "task": "handler", "steps": "'b' (use 1)"}]
    assert (await bench.memory.steps(job)).records == ()


async def test_a_change_is_found_although_the_handler_catches_everything() -> None:
    shop, seen = Shop(), list[BaseException]()

    async def stubborn(job: Job) -> str:
        for name in ("pay", "mail"):
            try:
                await job.step(name, shop.charge)
            except BaseException as error:
                seen.append(error)
        return "done"

    bench, job = await opened(shopping(shop, "charge"))
    await in_attempts(bench, 1)
    await deployed(bench, changed(stubborn, "handler"))
    await in_attempts(bench, 1)
    assert (await state(bench, job), shop.effects) == (State.HELD, ["charge charge"])
    assert [type(error) for error in seen] == [Suspended, Suspended]


async def test_an_added_last_step_is_not_a_change_of_recorded_ones() -> None:
    shop = Shop()
    bench, job = await opened(shopping(shop, "a"))
    await in_attempts(bench, 1)
    await deployed(bench, shopping(shop, "a", "b"))
    await in_attempts(bench, 1)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge a", "charge b"])


# sleep


@pytest.mark.parametrize("kind", KINDS)
async def test_a_long_sleep_frees_the_slot_and_goes_on_at_its_instant_without_spending_an_attempt(kind: str) -> None:
    shop = Shop()

    async def in_loop(job: Job) -> None:
        await job.step("charge", shop.charge)
        await job.sleep("2h")
        await job.step("ship", shop.ship, "book")

    def in_thread(job: SyncJob) -> None:
        job.step("charge", shop.charge)
        job.sleep("2h")
        job.step("ship", shop.ship, "book")

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    await attempt(bench)
    row = await bench.row(job)
    assert (row.state, row.failures, row.attempts[0].outcome) == (State.SCHEDULED, 0, AttemptOutcome.SNOOZED)
    assert abs((row.available_at - row.created_at).total_seconds() - 7200) < 1
    assert bench.executor.running == {}
    await bench.memory.reschedule([job])
    await attempt(bench)
    row = await bench.row(job)
    assert abs((row.available_at - row.created_at).total_seconds() - 7200) < 1
    await passing(bench, 7201.0)
    await attempt(bench)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["charge book", "ship book"])


@pytest.mark.virtual_time
async def test_a_short_sleep_keeps_its_slot() -> None:
    times = list[float]()

    async def handler(job: Job) -> None:
        for _ in range(2):
            times.append(asyncio.get_running_loop().time())
            await job.sleep(TIMING.beat)
        times.append(asyncio.get_running_loop().time())

    bench, job = await opened(handler)
    await attempt(bench)
    assert await state(bench, job) is State.COMPLETED
    assert [round(after - before, 3) for before, after in pairwise(times)] == [TIMING.beat] * 2


async def test_an_attempt_after_a_sleep_does_not_sleep_again() -> None:
    shop = Shop()

    async def handler(job: Job) -> None:
        await job.sleep("1h")
        shop.effects.append("awake")
        shop.fail()

    bench, job = await opened(handler)
    await in_attempts(bench, 1, pause=3601.0)
    await in_attempts(bench, 2)
    assert (await state(bench, job), shop.effects) == (State.COMPLETED, ["awake", "awake"])


async def test_a_suspended_handler_that_fails_in_its_cleanup_stays_suspended() -> None:
    async def handler(job: Job) -> None:
        try:
            await job.sleep("1h")
        finally:
            raise ValueError("cleanup")

    bench, job = await opened(handler)
    await attempt(bench)
    row = await bench.row(job)
    assert (row.state, row.failures) == (State.SCHEDULED, 0)


async def test_a_cancelled_job_that_suspends_ends() -> None:
    async def handler(job: Job) -> None:
        await bench.memory.request_cancel([job.id])
        await job.wait_for("approved")

    bench, job = await opened(handler)
    await attempt(bench)
    assert await state(bench, job) is State.CANCELLED


# signals


@pytest.mark.parametrize("kind", KINDS)
async def test_s23_a_wait_frees_the_slot_and_goes_on_with_the_value(kind: str) -> None:
    shop = Shop()

    async def in_loop(job: Job) -> Any:
        shop.effects.append("asked")
        first = await job.wait_for("approved", timeout="3d")
        shop.fail()
        return [first, await job.wait_for("approved")]

    def in_thread(job: SyncJob) -> Any:
        shop.effects.append("asked")
        first = job.wait_for("approved", timeout="3d")
        shop.fail()
        return [first, job.wait_for("approved")]

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    await attempt(bench)
    row = await bench.row(job)
    assert (row.state, row.awaits, row.failures) == (State.BLOCKED, "approved", 0)
    (cause,) = (await Client(bench.environment).explain(job)).causes
    assert "waits for the signal 'approved', at most until" in cause.message
    assert cause.remedy.startswith(f"`holdfast jobs signal {job} approved")
    await signal(bench, job, b'{"by":"ada"}')
    await signal(bench, job, b"2")
    await in_attempts(bench, 2)
    row = await bench.row(job)
    assert (row.state, row.result) == (State.COMPLETED, b'[{"by":"ada"},2]')
    assert shop.effects == ["asked"] * 3


async def test_s23_a_signal_that_came_first_is_taken_without_waiting() -> None:
    async def handler(job: Job) -> Any:
        return await job.wait_for("approved")

    bench, job = await opened(handler)
    await signal(bench, job, b"1", "other")
    await signal(bench, job, b"7")
    await attempt(bench)
    assert (await bench.row(job)).result == b"7"


async def test_s23_a_timeout_is_recorded_and_belongs_to_its_own_wait() -> None:
    shop, late = Shop(), list[str]()

    async def handler(job: Job) -> Any:
        try:
            await job.wait_for("approved", timeout="1h")
        except TimeoutError as error:
            late.append(str(error))
        shop.fail()
        return await job.wait_for("approved", timeout="1h")

    bench, job = await opened(handler)
    await in_attempts(bench, 1, pause=3601.0)
    await in_attempts(bench, 1)
    await signal(bench, job, b"7")
    await attempt(bench)
    assert (await bench.row(job)).result == b"7"
    assert late == [f"job {job}: no signal 'approved' came in time"] * 2


async def test_a_wait_without_a_timeout_is_explained_without_an_end() -> None:
    async def handler(job: Job) -> None:
        await job.wait_for("approved")

    bench, job = await opened(handler)
    await attempt(bench)
    (cause,) = (await Client(bench.environment).explain(job)).causes
    assert cause.message == "it waits for the signal 'approved'"
    assert (await state(bench, job)) is State.BLOCKED


async def test_s23_a_lost_job_consumes_no_signal() -> None:
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        await gate.wait()
        await job.wait_for("approved")

    bench, job = await opened(handler)
    await bench.exchange.step()
    await until(lambda: bench.executor.running)
    running = bench.executor.running[job]
    await bench.memory.end_lease(LEASE.id, why := LeaseEnd(RescueReason.CRASHED))
    await bench.memory.exchange([rescue(running.claim.job, why, jitter=0.0)])
    await signal(bench, job, b"1")
    gate.set()
    await bench.until_ended()
    assert bench.ended[0].transition is None
    assert (await bench.memory.steps(job)).records == ()


async def test_s23_a_lost_answer_consumes_one_signal() -> None:
    async def handler(job: Job) -> Any:
        return [await job.wait_for("approved"), await job.wait_for("approved")]

    bench, job = await opened(handler)
    await signal(bench, job, b"1")
    await signal(bench, job, b"2")
    bench.store.lose_answer("take_signal")
    await attempt_through_outage(bench)
    assert (await bench.row(job)).result == b"[1,2]"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_value_of_a_signal_that_is_not_json_is_reported_with_its_name(kind: str) -> None:
    async def in_loop(job: Job) -> Any:
        return await job.wait_for("approved")

    def in_thread(job: SyncJob) -> Any:
        return job.wait_for("approved")

    bench, job = await opened(in_loop if kind == "loop" else in_thread)
    await signal(bench, job, b"yes")
    await attempt(bench)
    error = (await bench.row(job)).error
    assert error is not None
    assert error.message.startswith("signal 'approved': its value: JSON is malformed")


async def test_a_record_of_a_step_that_is_not_json_is_reported_with_its_name() -> None:
    shop = Shop()

    async def handler(job: Job) -> None:
        damaged = StepRecord(name="charge", nth=1, place=0, is_sequential=True, result=b"{half")
        await bench.memory.record_step(job.id, job.token, damaged)
        await job.step("charge", shop.charge)

    bench, job = await opened(handler)
    await attempt(bench)
    error = (await bench.row(job)).error
    assert error is not None
    assert error.message.startswith("step 'charge' (use 1): its result: JSON is malformed")
    assert shop.effects == []
