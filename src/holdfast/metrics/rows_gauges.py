"""Rows of users' tables by status. To count them a database reads all, so that is done seldom, and for a short time."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from holdfast._core.tallies import Series
from holdfast._ports.table import States

if TYPE_CHECKING:
    from holdfast._ports.clock import Clock

KEPT = 60.0
"""Seconds for which the counts of a table are shown."""
LONGEST = 2.0
"""Seconds in which all tables that are counted now have to answer."""
REST = 600.0
"""Seconds before a table is counted again that did not answer in time."""

Look = Callable[[], Awaitable[States]]


class RowsGauges:
    """The gauges of the tables that an App watches. One that does not answer, or is too large to be counted, has none."""

    def __init__(self, tables: Callable[[], Mapping[str, Look]], clock: "Clock") -> None:
        self._tables, self._clock = tables, clock
        self._found, self._next = dict[str, States | None](), dict[str, float]()

    async def read(self) -> dict[Series, float]:
        """Return the gauges, at most a minute old."""
        now, tables = self._clock.monotonic(), self._tables()
        due = [name for name in tables if self._next.get(name, now) <= now]
        answers = await asyncio.gather(*(self._counted(tables[name]) for name in due))
        for name, states in zip(due, answers, strict=True):
            self._found[name], self._next[name] = states, now + (REST if states is None else KEPT)
        found = dict[Series, float]()
        for name in tables:
            if (known := self._found.get(name)) is not None:
                found |= {("rows", name, status): float(number) for status, number in known.rows.items()}
                found["rows_stuck", name] = known.stuck
        return found

    async def _counted(self, look: Look) -> States | None:
        try:
            async with asyncio.timeout(LONGEST):
                return await look()
        except Exception:  # of any driver; its own supervisor reports it
            return None
