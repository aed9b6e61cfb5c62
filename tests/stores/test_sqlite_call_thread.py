"""The store's thread: calls in turn, answers to whoever still waits, nothing left behind."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from weakref import ref

import pytest

from holdfast.databases.sqlite.call_thread import SPARE, CallThread, CallThreadPool, Closed
from tests.stores.support import store_on


@pytest.fixture
def lane() -> Iterator[CallThread]:
    lane = CallThread("lane")
    yield lane
    lane.close()


async def others_first() -> None:
    """Let every task that is ready take its next step."""
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(later.set_result, None)
    await later


def test_calls_run_in_one_thread_in_the_order_in_which_they_came(lane: CallThread) -> None:
    async def act() -> list[tuple[int, str]]:
        return list(await asyncio.gather(*(lane.run(lambda n=n: (n, threading.current_thread().name)) for n in range(50))))

    order: list[int] = []
    assert asyncio.run(act()) == [(n, "lane") for n in range(50)]

    async def note() -> None:
        await asyncio.gather(*(lane.run(lambda n=n: order.append(n)) for n in range(50)))

    asyncio.run(note())
    assert order == list(range(50))


def test_what_a_call_raises_reaches_its_caller_and_nobody_else(lane: CallThread) -> None:
    async def act() -> list[object]:
        return await asyncio.gather(lane.run(lambda: 1 // 0), lane.run(lambda: 7), return_exceptions=True)

    failed, answered = asyncio.run(act())
    assert isinstance(failed, ZeroDivisionError)
    assert answered == 7


def test_a_caller_that_left_before_its_turn_takes_its_call_with_it(lane: CallThread) -> None:
    gate, ran = threading.Event(), list[str]()

    async def act() -> None:
        first = asyncio.ensure_future(lane.run(gate.wait))
        second = asyncio.ensure_future(lane.run(lambda: ran.append("second")))
        third = asyncio.ensure_future(lane.run(lambda: ran.append("third")))
        await others_first()
        second.cancel()
        await others_first()
        gate.set()
        await asyncio.gather(first, third)

    asyncio.run(act())
    assert ran == ["third"]


def test_an_answer_for_a_loop_that_has_closed_harms_nobody(lane: CallThread) -> None:
    gate = threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(lane.run(gate.wait))
        await others_first()
        waiting.cancel()

    async def come_later() -> int:
        return await lane.run(lambda: 5)

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(come_later()) == 5


def test_close_lets_waiting_calls_run_and_ends_the_thread() -> None:
    lane = CallThread("ending")
    ran: list[int] = []

    async def act() -> None:
        calls = [asyncio.ensure_future(lane.run(lambda n=n: ran.append(n))) for n in range(5)]
        await others_first()
        lane.close()
        await asyncio.gather(*calls)

    asyncio.run(act())
    assert ran == list(range(5))
    assert "ending" not in {thread.name for thread in threading.enumerate()}


def test_a_closed_lane_takes_no_call_that_nobody_would_answer() -> None:
    lane = CallThread("closed")

    async def act() -> None:
        assert await lane.run(lambda: "last", is_last=True) == "last"
        with pytest.raises(Closed):
            await lane.run(lambda: "later")

    asyncio.run(act())
    lane.close()
    assert "closed" not in {thread.name for thread in threading.enumerate()}


def test_a_call_that_comes_while_another_thread_closes_the_store_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(threading.enumerate())
    store = store_on(tmp_path / "jobs.db")
    ready, closes = store._thread._ready, [1]

    def closed_just_now() -> object:
        found = ready()
        if closes:
            closes.clear()
            closing = threading.Thread(target=lambda: asyncio.run(store.close()))
            closing.start()
            closing.join()
        return found

    async def act() -> None:
        await store.migrate()
        monkeypatch.setattr(store._thread, "_ready", closed_just_now)
        async with asyncio.timeout(10):
            assert await store.counts() == {}
        await store.close()

    asyncio.run(act())
    assert set(threading.enumerate()) <= others


def test_nothing_of_a_call_stays_alive_while_the_thread_waits(lane: CallThread) -> None:
    class Big:
        pass

    async def act() -> ref[Big]:
        big = Big()
        with pytest.raises(KeyError):
            await lane.run(lambda: {}[big])
        await lane.run(int)
        return ref(big)

    kept = asyncio.run(act())
    gc.collect()
    assert kept() is None


def test_a_lane_that_is_given_back_is_the_next_ones_and_those_in_use_are_nobody_elses() -> None:
    lanes = CallThreadPool()
    with lanes.borrow() as one, lanes.borrow() as other:
        assert one is not other
    with lanes.borrow() as again, lanes.borrow() as another:
        assert {again, another} == {one, other}


def test_no_more_lanes_are_kept_than_a_few() -> None:
    lanes, others = CallThreadPool(), set(threading.enumerate())
    with ExitStack() as stack:
        for _ in range(SPARE + 3):
            stack.enter_context(lanes.borrow())
        assert len(set(threading.enumerate()) - others) == SPARE + 3
    assert len(set(threading.enumerate()) - others) == SPARE


def test_a_forked_child_borrows_none_of_its_parents_lanes() -> None:
    lanes = CallThreadPool()
    with lanes.borrow() as parents:
        pass
    lanes.after_fork_in_child()
    with lanes.borrow() as childs:
        assert childs is not parents


def test_what_is_borrowed_over_a_fork_does_not_come_back_to_the_child() -> None:
    lanes = CallThreadPool()
    with lanes.borrow() as parents:
        lanes.after_fork_in_child()
    with lanes.borrow() as childs:
        assert childs is not parents


def test_who_finds_that_another_thread_has_just_taken_the_last_one_does_without() -> None:
    class Taken(list[CallThread]):
        def __len__(self) -> int:
            return 1

    lanes, called = CallThreadPool(), list[int]()
    lanes._idle = Taken()

    async def act() -> None:
        lanes.use_idle(lambda: called.append(1))

    asyncio.run(act())
    assert called == []
