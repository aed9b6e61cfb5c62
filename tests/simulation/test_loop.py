"""Virtual time, and processes that die and freeze in it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast._ports.host import Exit
from proof.simulator.loop import PROCESS, Stuck, VirtualLoop
from tests.simulation.support import Stage, on_stage


def test_an_hour_passes_at_once() -> None:
    async def play(stage: Stage) -> None:
        before = stage.clock.monotonic()
        await stage.clock.sleep(3600)
        assert stage.clock.monotonic() - before == 3600

    on_stage(play)


def test_a_machines_clock_runs_at_its_own_rate() -> None:
    async def play(stage: Stage) -> None:
        fast = type(stage.clock)(stage.loop, rate=1.001)
        before, truly = fast.monotonic(), stage.loop.time()
        await fast.sleep(1000)
        assert fast.monotonic() - before == pytest.approx(1000)
        assert stage.loop.time() - truly == pytest.approx(1000 / 1.001)

    on_stage(play)


def test_a_dead_process_runs_not_even_its_finally() -> None:
    steps: list[str] = []

    async def live(stage: Stage) -> None:
        try:
            await stage.clock.sleep(10)
            steps.append("woke up")
        finally:
            steps.append("cleaned up")

    async def play(stage: Stage) -> None:
        process = stage.machine.process("worker")
        stage.loop.start(process, live(stage))
        await stage.clock.sleep(5)
        process.end(Exit(signal="SIGKILL"))
        await stage.clock.sleep(10)
        assert steps == []
        assert process.exit == Exit(signal="SIGKILL")

    on_stage(play)


def test_a_thawed_process_continues_where_it_was() -> None:
    async def live(stage: Stage, steps: list[float]) -> None:
        while True:
            await stage.clock.sleep(1)
            steps.append(stage.clock.monotonic())

    async def play(stage: Stage) -> None:
        steps: list[float] = []
        process = stage.machine.process("worker")
        stage.loop.start(process, live(stage, steps))
        await stage.clock.sleep(2.5)
        process.freeze()
        await stage.clock.sleep(10)
        assert len(steps) == 2
        process.thaw()
        await stage.clock.sleep(0)
        assert len(steps) == 3
        assert steps[2] - steps[1] == pytest.approx(10.5)

    on_stage(play)


def test_a_process_stays_frozen_while_one_reason_is_left() -> None:
    async def play(stage: Stage) -> None:
        process = stage.machine.process("worker")
        process.freeze("stopped")
        process.freeze("busy")
        process.thaw("busy")
        assert process.is_frozen
        assert process.is_frozen_by("stopped")
        process.thaw("stopped")
        assert not process.is_frozen

    on_stage(play)


def test_everything_a_process_starts_belongs_to_it() -> None:
    owners: list[object] = []

    async def child() -> None:
        owners.append(PROCESS.get())

    async def live() -> None:
        asyncio.get_running_loop().call_soon(lambda: owners.append(PROCESS.get()))
        await asyncio.gather(child(), asyncio.create_task(child()))

    async def play(stage: Stage) -> None:
        process = stage.machine.process("worker")
        await stage.loop.start(process, live())
        assert owners == [process] * 3
        assert PROCESS.get() is None
        assert process.exit == Exit(code=0)

    on_stage(play)


def test_a_process_that_raises_ends_with_code_1_and_is_reported() -> None:
    async def live() -> None:
        raise ValueError("oh")

    async def play(stage: Stage) -> None:
        process = stage.machine.process("worker")
        stage.loop.start(process, live())
        await stage.clock.sleep(1)
        assert process.exit == Exit(code=1)
        assert "ValueError('oh')" in stage.loop.complaints[0]

    on_stage(play)


def _run(main: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop(0)
    try:
        loop.run_until_complete(main)
    finally:
        loop.dispose([])


def test_a_deadlock_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="nothing can ever happen"):
        _run(wait())


def test_a_loop_that_never_waits_is_an_error() -> None:
    async def spin() -> None:
        turn = asyncio.Event()
        turn.set()
        while True:
            asyncio.get_running_loop().call_soon(turn.set)
            await asyncio.shield(asyncio.ensure_future(turn.wait()))

    with pytest.raises(Stuck, match="time stands still"):
        _run(spin())


def test_threads_are_refused() -> None:
    async def think() -> None:
        await asyncio.to_thread(int)

    with pytest.raises(RuntimeError, match="no threads"):
        _run(think())


def test_remaining_tasks_are_closed_without_a_report() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.get_running_loop().create_future()

    async def play(stage: Stage) -> None:
        process = stage.machine.process("worker")
        stage.loop.start(process, stubborn())
        await stage.clock.sleep(1)
        assert process.all_tasks

    on_stage(play)


def test_processes_take_turns_by_the_seed_and_each_keeps_its_order() -> None:
    def order(seed: int) -> list[tuple[str, int]]:
        steps: list[tuple[str, int]] = []

        async def live(stage: Stage, name: str) -> None:
            for step in range(5):
                await stage.clock.sleep(1)
                steps.append((name, step))

        async def play(stage: Stage) -> None:
            for name in "abc":
                stage.loop.start(stage.machine.process(name), live(stage, name))
            await stage.clock.sleep(10)

        on_stage(play, seed)
        return steps

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1
    assert [step for name, step in order(1) if name == "a"] == list(range(5))
