"""What the writes of a process have done to whole workflows: the facts behind its events of workflows."""

from collections import deque
from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import Reason, State

MOST_UNTAKEN = 10_000


class FlowChange(Struct, frozen=True):
    """The end of a workflow, or its pause for a node that failed. ``state``: of its root; HELD: it is paused."""

    flow: UUID
    state: State
    reason: Reason | None = None


class FlowChanges:
    """The changes of committed writes, each until it is taken. Threads may share it; of too many the oldest are forgotten."""

    def __init__(self) -> None:
        self._found = deque[FlowChange](maxlen=MOST_UNTAKEN)

    def add(self, changes: Iterable[FlowChange]) -> None:
        """Keep the changes of a write that has committed."""
        self._found.extend(changes)

    def take(self) -> tuple[FlowChange, ...]:
        """Return all changes, and forget them."""
        taken = list[FlowChange]()
        while True:
            try:
                taken.append(self._found.popleft())
            except IndexError:
                return tuple(taken)
