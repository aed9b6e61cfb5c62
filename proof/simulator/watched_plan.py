"""The watched table of a world: how many rows it has, which optional columns, and which rows are poison."""

import random
from typing import Protocol

from msgspec import Struct

from holdfast._core.table_spec import RowsSettings, TableSpec
from proof.checker.verdicts import TableRules

SHARE = 0.2  # of the worlds that may have one
NAME = "rows.parcels"  # the task whose jobs are runs of its handler


class Clocks(Protocol):
    """The clocks of a world: how far that of the store may step, and whether all stay within their assumptions."""

    @property
    def step(self) -> float: ...

    @property
    def is_timed(self) -> bool: ...


class RowsPlan(Struct, frozen=True, kw_only=True):
    """The plan of a table; times in seconds. ``raising``, ``killing``: keys of rows whose handler raises, or dies, each time.

    ``bare``: how many rows are in progress from the start and have no stamp. ``tells_stamps``: stamps can be asked for before a claim.
    ``max_resets``: ``None`` where no column counts them.
    """

    rows: int
    bare: int
    batch: int
    stale_after: float
    interval: float
    concurrency: int
    has_owner: bool
    tells_stamps: bool
    max_resets: int | None
    raising: tuple[int, ...] = ()
    killing: tuple[int, ...] = ()

    def rules(self, recovery: float, plan: Clocks) -> TableRules:
        """Return the promises for the table: the next watchdog run resets a row, and its pause after a failure is that of recovery."""
        return TableRules(
            stale_after=self.stale_after,
            late=recovery + 2 * plan.step + self.interval + 0.001 * self.stale_after if plan.is_timed else None,
            max_resets=self.max_resets,
            poison=(*self.raising, *self.killing),
        )

    @property
    def settings(self) -> RowsSettings:
        """The table, as an App declares it."""
        is_counting = self.max_resets is not None
        watch = TableSpec(
            name=NAME.partition(".")[2],
            table=("parcels",),
            key=("id",),
            status="status",
            pending="new",
            in_progress="busy",
            done="done",
            failed="failed",
            claimed_at="since",
            where="true",
            batch=self.batch,
            stale_after=self.stale_after,
            owner="owner" if self.has_owner else None,
            resets="resets" if is_counting else None,
            max_resets=self.max_resets,
            reason="reason" if is_counting else None,
        )
        return RowsSettings(watch=watch, url="simulated:", concurrency=self.concurrency, interval=self.interval)


def draw_rows(numbers: random.Random, ttl: float) -> RowsPlan | None:
    """Draw a table for some of the worlds. Poison rows end only where resets are counted."""
    if numbers.random() >= SHARE:
        return None
    rows, is_counting = numbers.choice([3, 8, 20, 40]), numbers.random() < 0.7
    keys = range(1, rows + 1)
    return RowsPlan(
        rows=rows,
        bare=numbers.choice([0, 0, 1]),
        batch=numbers.choice([1, 4, 10, 100]),
        stale_after=ttl * numbers.choice([0.5, 1.0, 2.0]),
        interval=ttl * numbers.choice([0.05, 0.1, 0.2]),
        concurrency=numbers.choice([1, 1, 3]),
        has_owner=numbers.random() < 0.5,
        tells_stamps=numbers.random() < 0.5,
        max_resets=numbers.choice([0, 1, 2]) if is_counting else None,
        raising=tuple(numbers.sample(keys, numbers.choice([0, 1, 2]))) if is_counting else (),
        killing=tuple(numbers.sample(keys, numbers.choice([0, 0, 0, 1]))) if is_counting else (),
    )
