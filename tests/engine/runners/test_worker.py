"""A worker with runner processes: what it claims for them, and what it reports about them to its supervisor."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast._core.cause import Code
from holdfast._core.explanation import WorkerFacts, explain
from holdfast._core.job import State
from holdfast._engine import messages
from holdfast._engine.runners import messages as runner_messages
from holdfast._engine.runners.options import Runners
from holdfast._engine.worker.options import WorkerOptions
from tests.engine.runners_support import DONE, FakeRunnerHost, processed
from tests.engine.support import SETTINGS, TIMING, AlwaysDueHooks, forever, stubborn, until
from tests.engine.worker.test_worker import Office, passing
from tests.event_loops import beside


class RunnerOffice(Office):
    """A worker with runners, and a supervisor that beats."""

    def __init__(self, *others: Callable[..., object], size: int = 2) -> None:
        super().__init__(processed(), *others, options=WorkerOptions(concurrency=10, runners=size))
        self.host = FakeRunnerHost()
        self.worker.pool = self.worker._open_pool(self.host, Runners())

    async def open(self) -> None:
        await super().open()
        beside(self.keep_beating())


@pytest.mark.virtual_time
async def test_s12_no_more_jobs_are_claimed_than_there_are_runners() -> None:
    office = RunnerOffice(size=2)
    await office.open()
    jobs = await office.enqueue("handler", "handler", "handler")
    await until(lambda: len(office.host.children) == 2)
    await passing(SETTINGS.poll_interval * 3)
    states = [await office.state(job) for job in jobs]
    assert states == [State.RUNNING, State.RUNNING, State.AVAILABLE]
    first = office.host.children[0]
    first.say(runner_messages.Ready())
    await first.next(runner_messages.Run)
    first.say(runner_messages.RunStarted(), DONE)
    assert (await first.next(runner_messages.Run)).claim.job.id == jobs[2]
    assert len(office.host.children) == 2


@pytest.mark.virtual_time
async def test_l4_a_worker_without_runners_leaves_process_jobs_to_others() -> None:
    office = Office(processed())
    await office.open()
    (job,) = await office.enqueue("handler")
    await passing(SETTINGS.poll_interval * 3)
    assert await office.state(job) is State.AVAILABLE


@pytest.mark.virtual_time
async def test_an_unresponsive_handler_in_a_runner_is_not_a_reason_to_end_its_worker() -> None:
    office = RunnerOffice()
    await office.open()
    (job,) = await office.enqueue("handler")
    await until(lambda: office.host.children)
    child = office.host.children[0]
    child.say(runner_messages.Ready())
    await child.next(runner_messages.Run)
    child.say(runner_messages.RunStarted())
    await office.memory.request_cancel([job])
    office.far.say(messages.CancelJobs((job,)))
    start = asyncio.get_running_loop().time()
    while await office.state(job) is State.RUNNING:
        await passing(0.5)
    assert child.is_killed
    assert await office.state(job) is State.CANCELLED
    assert SETTINGS.grace <= asyncio.get_running_loop().time() - start <= SETTINGS.grace + 1
    assert office.received(messages.CodeUnresponsive) == []


@pytest.mark.virtual_time
async def test_an_unresponsive_hook_is_a_reason_to_end_its_worker_even_for_a_process_task() -> None:
    office = RunnerOffice()
    await office.open()
    office.worker.executor._hooks = AlwaysDueHooks(lambda _: stubborn())  # type: ignore[assignment]
    (job,) = await office.enqueue("handler")
    await until(lambda: any(each.is_running_hook for each in office.worker.executor.running.values()))
    office.far.say(messages.CancelJobs((job,)))
    await passing(SETTINGS.grace - 1)
    assert office.received(messages.CodeUnresponsive) == []
    await passing(TIMING.beat + 2)
    assert office.received(messages.CodeUnresponsive)[-1].jobs == (job,)
    assert office.host.children == []


@pytest.mark.virtual_time
async def test_jobs_whose_runners_cannot_start_are_not_claimed_and_released_in_a_tight_loop() -> None:
    office = RunnerOffice()
    office.host.error = OSError("no more processes")
    await office.open()
    (job,) = await office.enqueue("handler")
    await passing(60.0)
    failures = len(office.log.of("runner.unavailable"))
    assert 3 <= failures <= 10
    row = await office.row(job)
    assert (row.state, row.attempt, row.failures) == (State.AVAILABLE, 0, 0)
    explained = explain(row, is_paused=False, workers=(WorkerFacts(name="w", tasks=("handler",), free=1),), now=row.available_at)
    (cause,) = explained.causes
    assert (cause.code, "no process for it: no more processes" in cause.message) == (Code.AT_CAPACITY, True)
    office.host.error = None
    await until(lambda: office.host.children)
    child = office.host.children[0]
    child.say(runner_messages.Ready())
    await child.next(runner_messages.Run)
    child.say(runner_messages.RunStarted(), DONE)
    while await office.state(job) is not State.COMPLETED:
        await passing(0.5)
    assert ((await office.row(job)).crashes, (await office.row(job)).error) == (0, None)


@pytest.mark.virtual_time
async def test_a_worker_whose_runners_cannot_start_is_not_idle_while_their_jobs_wait() -> None:
    office = RunnerOffice(forever)
    office.host.error = OSError("no more processes")
    await office.open()
    await office.enqueue("handler")
    while not office.log.of("runner.unavailable"):
        await passing(0.1)

    async def is_idle() -> bool:
        office.far.received()
        office.far.say(messages.Ping())
        return (await office.far.hear(messages.Pong)).is_idle

    for _ in range(60):
        await passing(0.5)
        assert not await is_idle()
    office.host.error = None
    await until(lambda: office.host.children)
    child = office.host.children[0]
    child.say(runner_messages.Ready())
    await child.next(runner_messages.Run)
    child.say(runner_messages.RunStarted(), DONE)
    await passing(3.0)
    assert await is_idle()


@pytest.mark.virtual_time
async def test_a_worker_that_ends_takes_its_runners_down_with_it() -> None:
    office = RunnerOffice()
    await office.open()
    (job,) = await office.enqueue("handler")
    await until(lambda: office.host.children)
    child = office.host.children[0]
    child.say(runner_messages.Ready())
    await child.next(runner_messages.Run)
    child.say(runner_messages.RunStarted(), DONE)
    while await office.state(job) is not State.COMPLETED:
        await passing(0.1)
    office.far.say(messages.Drain(5.0))
    await child.next(runner_messages.Shutdown)
    await office.running  # The worker does not wait indefinitely for a runner that does not end.
    assert child.is_killed
