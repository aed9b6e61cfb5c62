"""A service never ends by itself: it steps, waits, and backs off after any error."""

import asyncio

import pytest

from holdfast._engine.service import Service, Signal
from holdfast.errors import ConfigurationError, StoreDamaged, StoreRefused
from holdfast.testing.clock import FakeChance
from tests.engine.support import Log, LoopClock, turns, until


class Steps:
    """A step that follows a plan of pauses and errors, and repeats the last one."""

    def __init__(self, *plan: float | BaseException) -> None:
        self.plan = list(plan)
        self.times: list[float] = []

    async def __call__(self) -> float:
        self.times.append(asyncio.get_running_loop().time())
        planned = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
        if isinstance(planned, BaseException):
            raise planned
        return planned

    def waits(self) -> list[float]:
        return [later - sooner for sooner, later in zip(self.times, self.times[1:], strict=False)]


def service(step: Steps, log: Log, longest_pause: float = 5.0) -> Service:
    return Service("exchange", step, events=log.events, chance=FakeChance(), longest_pause=longest_pause)


@pytest.mark.virtual_time
async def test_a_service_outlives_every_error_of_its_step() -> None:
    step, log = Steps(OSError("gone"), ValueError("odd"), ExceptionGroup("many", [OSError()]), 1.0), Log()
    task = asyncio.ensure_future(service(step, log).run())
    await until(lambda: len(step.times) > 4)
    assert not task.done()
    failed = log.of("store.unavailable")
    assert [fields["failures"] for fields in failed] == [1, 2, 3]
    assert failed[0]["operation"] == "exchange"
    assert failed[0]["error"] == "OSError: gone"
    assert log.of("store.recovered") == [{"operation": "exchange", "failures": 3}]


@pytest.mark.virtual_time
async def test_l11_a_refusal_is_not_reported_as_an_outage_and_the_service_tries_again() -> None:
    step, log = Steps(StoreRefused("settle: no identity: ALTER TABLE"), ConfigurationError(["may not"]), 1.0), Log()
    task = asyncio.ensure_future(service(step, log).run())
    await until(lambda: len(step.times) > 3)
    assert not task.done()
    assert [fields["error"] for fields in log.of("store.refused")] == [
        "StoreRefused: settle: no identity: ALTER TABLE",
        "ConfigurationError: may not",
    ]
    assert log.of("store.unavailable") == []
    assert log.of("store.recovered") == [{"operation": "exchange", "failures": 2}]


@pytest.mark.virtual_time
async def test_damage_is_reported_as_an_outage_and_to_the_owner_of_the_service() -> None:
    step, log, reported = Steps(StoreDamaged("claim: malformed"), 1.0), Log(), list[list[str]]()
    made = Service(
        "exchange",
        step,
        events=log.events,
        chance=FakeChance(),
        longest_pause=5.0,
        on_damage=lambda problems: reported.append(list(problems)),
    )
    task = asyncio.ensure_future(made.run())
    await until(lambda: len(step.times) > 1)
    assert not task.done()
    assert reported == [["claim: malformed"]]
    assert len(log.of("store.unavailable")) == 1


@pytest.mark.virtual_time
async def test_a_cancellation_that_a_step_raises_by_itself_does_not_end_the_service() -> None:
    step = Steps(asyncio.CancelledError(), 1.0)
    task = asyncio.ensure_future(service(step, Log()).run())
    await until(lambda: len(step.times) > 2)
    assert not task.done()


async def test_a_service_ends_when_it_is_cancelled_even_inside_a_step() -> None:
    came = asyncio.Event()

    async def step() -> float:
        came.set()
        return await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(Service("s", step, events=Log().events, chance=FakeChance(), longest_pause=1.0).run())
    await came.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.virtual_time
async def test_l9_pauses_grow_up_to_the_longest_and_are_jittered() -> None:
    step = Steps(OSError())
    task = asyncio.ensure_future(service(step, Log(), longest_pause=2.0).run())
    await LoopClock().sleep(60)
    task.cancel()
    waits = step.waits()
    assert 0.025 <= waits[0] <= 0.05
    assert 0.05 <= waits[1] <= 0.1
    assert all(1.0 <= wait <= 2.0 for wait in waits[10:])
    assert len(set(waits[10:])) > 10


@pytest.mark.virtual_time
async def test_l9_no_hint_shortens_the_pause_after_a_failure() -> None:
    step = Steps(OSError())
    made = service(step, Log(), longest_pause=2.0)
    task = asyncio.ensure_future(made.run())
    for _ in range(200):
        made.wake.set()
        await LoopClock().sleep(0.1)
    task.cancel()
    assert min(step.waits()[10:]) >= 1.0


@pytest.mark.virtual_time
async def test_a_hint_ends_the_wait() -> None:
    step = Steps(1000.0)
    made = service(step, Log())
    task = asyncio.ensure_future(made.run())
    await until(lambda: len(step.times) == 1)
    made.wake.set()
    await until(lambda: len(step.times) == 2)
    task.cancel()
    assert step.waits()[0] < 0.1


async def test_a_step_that_runs_again_at_once_lets_other_tasks_run() -> None:
    step = Steps(0.0)
    task = asyncio.ensure_future(service(step, Log()).run())
    await turns(10)
    task.cancel()
    assert 3 < len(step.times) <= 11


@pytest.mark.virtual_time
async def test_a_signal_wakes_a_waiting_task_or_the_next_one_that_waits() -> None:
    wake = Signal()
    wake.set()
    assert await wake.wait(1000.0)
    waiting = asyncio.ensure_future(wake.wait(1000.0))
    await turns()
    assert not waiting.done()
    wake.set()
    assert await waiting
    assert not await wake.wait(0.0)
    assert not await wake.wait(0.001)
