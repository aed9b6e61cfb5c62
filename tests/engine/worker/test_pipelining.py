"""A worker with many slots claims for one half of them while the other half works."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import State
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import ClaimRequest
from holdfast._engine.worker.exchange import PIPELINE_FROM
from tests.engine.support import Bench, turns

NOTHING = b"{}"


async def quick() -> None: ...


async def forever() -> None:
    await asyncio.Event().wait()


class Counted:
    """A list of how many jobs each exchange settles and asks for."""

    def __init__(self, bench: Bench) -> None:
        self.seen: list[tuple[int, int]] = []
        self._bench, self._exchange = bench, bench.memory.exchange
        bench.memory.exchange = self.exchange  # type: ignore[method-assign]

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        self.seen.append((len(transitions), 0 if request is None else request.limit))
        return await self._exchange(transitions, request)


async def opened(task: Any, *, slots: int, jobs: int) -> tuple[Bench, Counted]:
    bench = Bench(task, slots=slots, is_halved=True)
    await bench.open(*[(task.__name__, NOTHING)] * jobs)
    return bench, Counted(bench)


async def test_many_slots_are_filled_half_by_half_without_a_turn_of_the_loop_between() -> None:
    bench, counted = await opened(forever, slots=100, jobs=150)
    assert await bench.exchange.step() == 0.0
    assert counted.seen == [(0, 50), (0, 50)]
    assert (len(bench.executor.running), bench.reports.begins) == (100, [])
    assert await bench.exchange.step() == 1.0


async def test_few_slots_are_filled_at_once() -> None:
    bench, counted = await opened(forever, slots=PIPELINE_FROM - 1, jobs=150)
    await bench.exchange.step()
    assert counted.seen == [(0, PIPELINE_FROM - 1)]


async def test_all_slots_are_filled_at_once_when_the_store_is_a_file() -> None:
    bench = Bench(forever, slots=100)
    await bench.open(*[("forever", NOTHING)] * 150)
    counted = Counted(bench)
    await bench.exchange.step()
    assert counted.seen == [(0, 100)]


async def test_outcomes_go_with_the_claim_for_the_slots_they_left() -> None:
    bench, counted = await opened(quick, slots=100, jobs=300)
    while (await bench.memory.counts()).get(("", State.COMPLETED)) != 300:
        await bench.exchange.step()
        await turns(2)
    assert len(counted.seen) <= 9
    assert all(settled == 0 or asked > 0 for settled, asked in counted.seen)


async def test_the_second_half_is_not_claimed_when_few_jobs_wait() -> None:
    bench, counted = await opened(forever, slots=100, jobs=20)
    assert await bench.exchange.step() == 1.0
    assert counted.seen == [(0, 50)]


async def test_nothing_is_claimed_for_the_second_half_past_the_deadline() -> None:
    bench, counted = await opened(forever, slots=100, jobs=150)
    take = bench.exchange._take

    def take_and_age(*given: Any) -> None:
        take(*given)
        bench.clock.advance(26.0)

    bench.exchange._take = take_and_age  # type: ignore[assignment]
    await bench.exchange.step()
    assert [asked for _, asked in counted.seen if asked] == [50]
    await turns(3)
    assert bench.reports.begins == []  # The first half was not started either: its jobs are released.
