"""Blocking twins go through one portal thread."""

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import InsideEventLoop
from holdfast.sync import Portal, blocking
from tests.e2e.waiting import STALL, until


class Clerk:
    async def aask(self, question: str, *, loud: bool = False) -> str:
        """Answer a question of the caller."""
        if not question:
            raise ValueError("nothing asked")
        return f"{question.upper() if loud else question} in {threading.current_thread().name}"

    ask = blocking(aask)


def test_a_blocking_twin_has_the_same_arguments_and_result() -> None:
    assert Clerk().ask("why", loud=True) == "WHY in holdfast-portal"
    with pytest.raises(ValueError, match="nothing asked"):
        Clerk().ask("")
    assert (Clerk.ask.__name__, Clerk.ask.__doc__) == ("ask", "Answer a question of the caller.")


async def test_a_blocking_call_inside_a_loop_names_its_twin_and_starts_nothing() -> None:
    with pytest.raises(InsideEventLoop, match="await aask"):
        Clerk().ask("why")


def test_threads_share_one_portal_and_do_not_wait_for_each_other() -> None:
    async def wait(together: threading.Barrier) -> int:
        return await asyncio.get_running_loop().run_in_executor(None, together.wait)

    together, portal = threading.Barrier(4, timeout=10), Portal()
    with ThreadPoolExecutor(4) as pool:
        arrivals = list(pool.map(lambda _: portal.run(wait(together)), range(4)))
    portal.close()
    assert sorted(arrivals) == [0, 1, 2, 3]


def test_a_closed_portal_opens_again() -> None:
    async def answer() -> int:
        return 42

    portal = Portal()
    assert portal.run(answer()) == 42
    portal.close()
    portal.close()
    assert portal.run(answer()) == 42
    portal.close()


def test_ctrl_c_ends_the_wait_and_cancels_the_call() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    def interrupt() -> None:
        begun.wait()
        main = threading.main_thread()
        state = Path(f"/proc/self/task/{main.native_id}/stat")
        # a signal between Python's last look for one and the wait for the lock would only be seen after the wait
        until(lambda: state.read_text().rpartition(") ")[2][0] == "S", within=STALL)
        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    async def answer() -> int:
        return 42

    portal = Portal()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the process that started the tests may ignore it
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            portal.run(wait())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cancelled.wait(10)
    assert portal.run(answer()) == 42
    portal.close()


def test_code_in_a_thread_of_a_call_may_call_again() -> None:
    portal = Portal()

    async def answer() -> int:
        return 42

    async def ask_in_a_thread() -> int:
        return await asyncio.to_thread(portal.run, answer())

    assert portal.run(ask_in_a_thread()) == 42
    portal.close()


def test_closing_a_portal_ends_the_calls_in_flight() -> None:
    begun, ended = threading.Event(), list[str]()

    async def wait() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            portal.run(wait())
        except BaseException as error:
            ended.append(type(error).__name__)

    portal = Portal()
    waiting = threading.Thread(target=call)
    waiting.start()
    begun.wait()
    portal.close()
    waiting.join(10)
    assert ended == ["CancelledError"]
