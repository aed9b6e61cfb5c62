"""How long claims of a thousand rows take beside all those rows: at first, behind many that are done and not tidied away, and so on."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import psycopg

from bench.rounds import LogLine
from bench.rows import crowd
from bench.rows.site import Site
from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Table

Answer = TypeVar("Answer")
Figures = dict[str, list[float]]
"""Milliseconds of each call, by what it was and when."""


async def measure(site: Site, table: Table, count: int, log_line: LogLine) -> Figures:
    """Measure claims in a table of ``count`` rows. Each phase claims and finishes a hundredth of it."""
    part, found = max(2, count // 100 // crowd.BATCH), Figures()
    phases = ("at first", "behind 1 % of dead rows", "behind 2 %", "behind 3 %")
    for phase in phases:
        log_line(f"{part} claims {phase}")
        await _claim(table, part, found, f"claim {phase}", f"done {phase}")
    log_line(f"{part} claims whose rows lie far apart")
    await _claim(table, part, found, "claim of scattered rows", "done of scattered rows")
    log_line("resets")
    while len(found.setdefault("reset", [])) < 100:
        took, rows = await _timed(lambda: table.reset(crowd.BATCH))
        if not rows:
            break
        found["reset"].append(took)
    if site.kind == "postgres":
        crowd.due_again(site)
        site.say("VACUUM (ANALYZE) pastes")
        with _looking_on(site):
            for phase in ("under an old snapshot", "under it, behind 1 % of dead rows", "under it, behind 2 %"):
                log_line(f"{part} claims {phase}")
                await _claim(table, part, found, f"claim {phase}", f"done {phase}")
    return found


async def _claim(table: Table, times: int, found: Figures, claim: str, done: str) -> None:
    for _ in range(times):
        took, claimed = await _timed(lambda: table.claim("", crowd.BATCH))
        if len(claimed.rows) < crowd.BATCH:
            raise RuntimeError(f"{claim}: {len(claimed.rows)} rows were due")
        found.setdefault(claim, []).append(took)
        keys = [(row["id"],) for row in claimed.rows]
        took, moved = await _timed(partial(table.move, claimed.fence, keys, RowOutcome.DONE))
        if len(moved) < crowd.BATCH:
            raise RuntimeError(f"{done}: {len(moved)} rows were done")
        found.setdefault(done, []).append(took)


async def _timed(act: Callable[[], Awaitable[Answer]]) -> tuple[float, Answer]:
    began = time.perf_counter()
    answer = await act()
    return (time.perf_counter() - began) * 1000, answer


@contextmanager
def _looking_on(site: Site) -> Iterator[None]:
    """Make a backup at the same time, so that no dead row may be forgotten."""
    with psycopg.connect(site.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM (SELECT FROM pastes LIMIT 1) AS one")
        yield
