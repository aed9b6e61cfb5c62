"""Coroutines that never wait, run to their end by blocking code: one text then serves awaited libraries and others."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def run_now(act: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine that never waits, and return its result."""
    try:
        act.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise AssertionError("a library that is not awaited has waited")


async def obeyed(ask: Callable[[], Answer | Coroutine[Any, Any, Answer]]) -> Answer:
    """Return what a call returned, awaited if it has to be."""
    answer = ask()
    if isinstance(answer, Coroutine):
        awaited: Answer = await answer
        return awaited
    return answer


@contextmanager
def held_now(block: AbstractAsyncContextManager[Answer]) -> Iterator[Answer]:
    """Run an asynchronous context manager that never waits as one of blocking code."""
    entered = run_now(_entered(block))
    try:
        yield entered
    except BaseException as error:
        if not run_now(_left(block, error)):
            raise
    else:
        run_now(_left(block, None))


async def _entered(block: AbstractAsyncContextManager[Answer]) -> Answer:
    return await block.__aenter__()


async def _left(block: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool:
    if error is None:
        return bool(await block.__aexit__(None, None, None))
    return bool(await block.__aexit__(type(error), error, error.__traceback__))
