"""A store whose verbs run at once, on the connection of the thread that calls them: inside a transaction that is open there."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.stores.sqlite.database import StoreDatabase

Answer = TypeVar("Answer")


class SameThread:
    """Stands for a store's thread where that thread itself asks."""

    def __init__(self, database: StoreDatabase) -> None:
        self._database = database

    async def run(self, action: Callable[[StoreDatabase], Answer]) -> Answer:
        """Return what the action answers."""
        return action(self._database)


def run_at_once(verbs: Coroutine[Any, Any, Answer]) -> Answer:
    """Return the result of a coroutine that waits for nothing."""
    try:
        verbs.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # what the coroutine returns
    verbs.close()
    raise RuntimeError("a verb waited: in the store's own thread nothing may")
