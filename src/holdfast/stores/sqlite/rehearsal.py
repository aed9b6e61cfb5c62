"""Run verbs of a store at once, in the calling thread and inside the transaction that is open on its connection."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.stores.sqlite.database import StoreDatabase

Answer = TypeVar("Answer")


class SameThread:
    """The stand-in for a store's thread, for calls made in that thread itself."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    async def run(self, action: Callable[[StoreDatabase], Answer]) -> Answer:
        """Run the action at once and return its result."""
        return action(self._database)


def run_at_once(verbs: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine that waits for nothing."""
    try:
        verbs.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # what the coroutine returns
    verbs.close()
    raise RuntimeError("a verb waited: in the store's own thread nothing may")
