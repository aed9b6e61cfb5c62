"""A process that may have few connections: calls wait for each other, and a beat does not wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast._ports.store import Store
from holdfast.errors import StoreUnavailable
from holdfast.stores.memory import MemoryStore
from proof.checker.history import History
from proof.simulator.call_outcomes import Fault, Faults, Mix
from proof.simulator.connections import Connections
from proof.simulator.faults import faulty
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_profiles import CALL, JOB, OTHER, new

SLOW = 4.0  # seconds at most there, and as many back


def with_few(play: Callable[[Stage, Store], Awaitable[None]], *, most: int, timeout: float) -> None:
    async def run(stage: Stage) -> None:
        loop = stage.loop
        faults = Faults(loop.stream("calls"), Mix(rates={Fault.SLOW: 1.0}, slowest=SLOW))
        connections = Connections(loop, most, timeout=timeout)
        store = MemoryStore(stage.clock)
        await play(
            stage,
            faulty(store, process="p", faults=faults, clock=stage.clock, history=History(), connections=connections),
        )

    on_stage(run)


def test_calls_take_turns_in_their_order_and_a_beat_waits_for_none() -> None:
    async def play(stage: Stage, store: Store) -> None:
        done: list[str] = []

        async def ask(name: str, call: Awaitable[object]) -> None:
            await call
            done.append(name)

        calls = [ask(f"{number}", store.get(JOB)) for number in range(8)]
        await asyncio.gather(*calls, ask("beat", store.beat([])))
        assert [name for name in done if name != "beat"] == [f"{number}" for number in range(8)]
        assert done.index("beat") <= 2

    with_few(play, most=1, timeout=100.0)


def test_a_call_that_waits_too_long_fails_and_takes_no_turn() -> None:
    async def play(stage: Stage, store: Store) -> None:
        first = asyncio.ensure_future(store.enqueue(CALL, [new()]))
        await stage.clock.sleep(0)
        with pytest.raises(StoreUnavailable, match="all 1 connections were busy"):
            await store.get(JOB)
        await first
        assert await store.get(JOB) is not None

    with_few(play, most=1, timeout=0.01)


def test_a_turn_that_a_call_gives_up_goes_to_the_next_call() -> None:
    async def play(stage: Stage, store: Store) -> None:
        async def ask_and_cancel() -> None:
            await store.get(JOB)
            second.cancel()  # at the moment of its turn

        first = asyncio.ensure_future(ask_and_cancel())
        await stage.clock.sleep(0)
        second, third = (asyncio.ensure_future(store.get(each)) for each in (OTHER, JOB))
        await first
        assert await third is None
        assert second.cancelled()
        assert await store.get(JOB) is None

    with_few(play, most=1, timeout=100.0)
