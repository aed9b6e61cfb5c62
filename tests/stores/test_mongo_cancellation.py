"""A task that was cancelled ends, even if the driver takes no notice."""

import asyncio

import pytest

from holdfast.databases.mongo.database import obey


async def ended(answer: object) -> object:
    """Return an answer, or raise it."""
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("answer", [{"ok": 1}, OSError("reset")], ids=["answered", "failed"])
def test_a_cancellation_is_not_lost_in_the_driver(answer: object) -> None:
    async def run() -> bool:
        begun, never = asyncio.Event(), asyncio.Event()

        async def unmoved() -> object:
            begun.set()
            try:
                await never.wait()
            except asyncio.CancelledError:
                pass  # as a driver does that is at work
            return await ended(answer)

        task = asyncio.ensure_future(obey(unmoved()))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


def test_without_a_cancellation_answers_and_errors_are_those_of_the_driver() -> None:
    assert asyncio.run(obey(ended("answer"))) == "answer"
    with pytest.raises(OSError, match="reset"):
        asyncio.run(obey(ended(OSError("reset"))))
