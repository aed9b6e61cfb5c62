"""The optional verb of a store that groups failed jobs by their errors."""

from typing import Protocol

from holdfast._core.error_groups import ErrorList


class Errors(Protocol):
    """The verb for stores that group failed jobs without sending them to the caller."""

    async def errors(self, look: int, limit: int) -> ErrorList:
        """Group the newest ``look`` failed jobs by their error keys; return at most ``limit`` groups, that of the newest failure first.

        The newest job is the one that ended last. Jobs without a key are grouped by task and reason. Stubs are left out, because
        their errors are forgotten. A store may look at a few more jobs than asked for.
        """
        ...
