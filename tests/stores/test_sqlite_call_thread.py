"""The store's thread: it runs calls in turn, answers each caller that still waits, and leaves nothing behind."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from weakref import ref

import pytest

from holdfast.databases.call_thread import SPARE, CallThread, CallThreadPool, Closed
from tests.stores.support import store_on


@pytest.fixture
def worker() -> Iterator[CallThread]:
    worker = CallThread("lane")
    yield worker
    worker.close()


async def others_first() -> None:
    """Yield to the event loop until every ready task has taken its next step."""
    later = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(later.set_result, None)
    await later


def test_calls_run_in_one_thread_in_the_order_in_which_they_came(worker: CallThread) -> None:
    async def act() -> list[tuple[int, str]]:
        return list(await asyncio.gather(*(worker.run(lambda n=n: (n, threading.current_thread().name)) for n in range(50))))

    order: list[int] = []
    assert asyncio.run(act()) == [(n, "lane") for n in range(50)]

    async def note() -> None:
        await asyncio.gather(*(worker.run(lambda n=n: order.append(n)) for n in range(50)))

    asyncio.run(note())
    assert order == list(range(50))


def test_what_a_call_raises_reaches_only_its_caller(worker: CallThread) -> None:
    async def act() -> list[object]:
        return await asyncio.gather(worker.run(lambda: 1 // 0), worker.run(lambda: 7), return_exceptions=True)

    failed, answered = asyncio.run(act())
    assert isinstance(failed, ZeroDivisionError)
    assert answered == 7


def test_a_call_whose_caller_stopped_waiting_is_not_run(worker: CallThread) -> None:
    gate, ran = threading.Event(), list[str]()

    async def act() -> None:
        first = asyncio.ensure_future(worker.run(gate.wait))
        second = asyncio.ensure_future(worker.run(lambda: ran.append("second")))
        third = asyncio.ensure_future(worker.run(lambda: ran.append("third")))
        await others_first()
        second.cancel()
        await others_first()
        gate.set()
        await asyncio.gather(first, third)

    asyncio.run(act())
    assert ran == ["third"]


def test_an_answer_for_a_closed_event_loop_harms_no_later_call(worker: CallThread) -> None:
    gate = threading.Event()

    async def leave() -> None:
        waiting = asyncio.ensure_future(worker.run(gate.wait))
        await others_first()
        waiting.cancel()

    async def come_later() -> int:
        return await worker.run(lambda: 5)

    asyncio.run(leave())
    gate.set()
    assert asyncio.run(come_later()) == 5


def test_close_lets_waiting_calls_run_and_ends_the_thread() -> None:
    worker = CallThread("ending")
    ran: list[int] = []

    async def act() -> None:
        calls = [asyncio.ensure_future(worker.run(lambda n=n: ran.append(n))) for n in range(5)]
        await others_first()
        worker.close()
        await asyncio.gather(*calls)

    asyncio.run(act())
    assert ran == list(range(5))
    assert "ending" not in {thread.name for thread in threading.enumerate()}


def test_a_closed_call_thread_refuses_calls_it_would_not_answer() -> None:
    worker = CallThread("closed")

    async def act() -> None:
        assert await worker.run(lambda: "last", is_last=True) == "last"
        with pytest.raises(Closed):
            await worker.run(lambda: "later")

    asyncio.run(act())
    worker.close()
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


def test_nothing_of_a_call_stays_alive_while_the_thread_waits(worker: CallThread) -> None:
    class Big:
        pass

    async def act() -> ref[Big]:
        big = Big()
        with pytest.raises(KeyError):
            await worker.run(lambda: {}[big])
        await worker.run(int)
        return ref(big)

    kept = asyncio.run(act())
    gc.collect()
    assert kept() is None


def test_a_released_call_thread_is_used_again_and_one_in_use_is_not_shared() -> None:
    threads = CallThreadPool()
    with threads.borrow() as one, threads.borrow() as other:
        assert one is not other
    with threads.borrow() as again, threads.borrow() as another:
        assert {again, another} == {one, other}


def test_only_a_few_idle_call_threads_are_kept() -> None:
    threads, others = CallThreadPool(), set(threading.enumerate())
    with ExitStack() as stack:
        for _ in range(SPARE + 3):
            stack.enter_context(threads.borrow())
        assert len(set(threading.enumerate()) - others) == SPARE + 3
    assert len(set(threading.enumerate()) - others) == SPARE


def test_a_forked_child_borrows_none_of_its_parents_call_threads() -> None:
    threads = CallThreadPool()
    with threads.borrow() as parents:
        pass
    threads.after_fork_in_child()
    with threads.borrow() as childs:
        assert childs is not parents


def test_a_call_thread_borrowed_across_a_fork_is_not_released_in_the_child() -> None:
    threads = CallThreadPool()
    with threads.borrow() as parents:
        threads.after_fork_in_child()
    with threads.borrow() as childs:
        assert childs is not parents


def test_use_idle_does_nothing_when_another_thread_takes_the_last_call_thread() -> None:
    class Taken(list[CallThread]):
        def __len__(self) -> int:
            return 1

    threads, called = CallThreadPool(), list[int]()
    threads._idle = Taken()

    async def act() -> None:
        threads.use_idle(lambda: called.append(1))

    asyncio.run(act())
    assert called == []
