"""Blocking twins go through one portal thread."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import InsideEventLoop
from holdfast.sync import Portal, blocking


class Clerk:
    async def aask(self, question: str, *, loud: bool = False) -> str:
        """Ask."""
        if not question:
            raise ValueError("nothing asked")
        return f"{question.upper() if loud else question} in {threading.current_thread().name}"

    ask = blocking(aask)


def test_a_blocking_twin_takes_and_answers_the_same() -> None:
    assert Clerk().ask("why", loud=True) == "WHY in holdfast-portal"
    with pytest.raises(ValueError, match="nothing asked"):
        Clerk().ask("")
    assert (Clerk.ask.__name__, Clerk.ask.__doc__) == ("ask", "Ask.")


def test_inside_a_loop_it_names_its_twin_and_starts_nothing() -> None:
    async def main() -> None:
        with pytest.raises(InsideEventLoop, match="await aask"):
            Clerk().ask("why")

    asyncio.run(main())


def test_threads_share_one_portal_and_do_not_wait_for_each_other() -> None:
    async def wait(together: threading.Barrier) -> None:
        await asyncio.get_running_loop().run_in_executor(None, together.wait)

    together, portal = threading.Barrier(4, timeout=10), Portal()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: portal.run(wait(together)), range(4)))
    portal.close()


def test_a_closed_portal_opens_again() -> None:
    async def answer() -> int:
        return 42

    portal = Portal()
    assert portal.run(answer()) == 42
    portal.close()
    portal.close()
    assert portal.run(answer()) == 42
    portal.close()
