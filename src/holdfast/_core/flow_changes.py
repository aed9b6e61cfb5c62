"""What the writes of a process have done to whole workflows: the facts behind its events of workflows."""

from collections import deque
from collections.abc import Sequence
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
        self.added = 0

    def add(self, changes: Sequence[FlowChange]) -> None:
        """Keep the changes of a write that has committed."""
        self._found.extend(changes)
        self.added += len(changes)

    def take_back(self, added: int) -> None:
        """Forget what was added since there were this many, and is not taken: its write was undone."""
        for _ in range(min(self.added - added, len(self._found))):
            self._found.pop()
        self.added = added

    def take(self) -> tuple[FlowChange, ...]:
        """Return all changes, and forget them."""
        taken = list[FlowChange]()
        while True:
            try:
                taken.append(self._found.popleft())
            except IndexError:
                return tuple(taken)
