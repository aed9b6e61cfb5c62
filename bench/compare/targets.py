"""What Holdfast is to reach beside its peers: ratios of one run, medians of the rounds' ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from msgspec import Struct

from bench.rounds import Book

Cell = tuple[str, str]
"""A figure and the title of an entry."""


class Target(Struct, frozen=True):
    """``above`` is to be at least ``least`` times the best of ``below``; of a latency the smallest is the best."""

    text: str
    above: Cell
    below: tuple[Cell, ...]
    least: float


class Limit(Struct, frozen=True):
    """A latency of Holdfast's, in milliseconds."""

    text: str
    cell: Cell
    most: float


def _on(store: str, kind: str = "async", setting: str = "defaults") -> str:
    return f"holdfast, {store}, {setting}, {kind}"


_PG, _LITE = _on("PostgreSQL"), _on("SQLite")
_PREFORK = tuple(f"celery, {setting}, process" for setting in ("best", "defaults"))
_CELERY = ("celery, best, def", *_PREFORK)


def _drain(text: str, ours: str, peers: tuple[str, ...], least: float, processes: int = 1) -> Target:
    figure = f"drain {processes}"
    return Target(f"drain, {processes} worker: {text}", (figure, ours), tuple((figure, peer) for peer in peers), least)


TARGETS = (
    _drain("PostgreSQL, defaults / graphile-worker's best", _PG, ("graphile-worker, best, async",), 1.0),
    _drain("PostgreSQL, defaults / graphile-worker's best", _PG, ("graphile-worker, best, async",), 1.1, 2),
    _drain("PostgreSQL, defaults / pgqueuer's best", _PG, ("pgqueuer, best, async",), 2.0),
    _drain("SQLite, defaults / huey's best", _LITE, ("huey, best, def",), 7.0),
    *(_drain(f"{store}, def / async", _on(store, "def"), (_on(store),), 0.5) for store in ("PostgreSQL", "SQLite")),
    _drain("SQLite, def / huey's threads", _on("SQLite", "def"), ("huey, best, def",), 2.0),
    *(
        _drain(f"{store}, def / Dramatiq's best", _on(store, "def"), ("dramatiq, best, def",), 2.0)
        for store in ("PostgreSQL", "SQLite")
    ),
    *(_drain(f"{store}, def / Celery's best", _on(store, "def"), _CELERY, 2.0) for store in ("PostgreSQL", "SQLite")),
    *(
        _drain(f"{store}, process=True / Celery prefork's best", _on(store, "process"), _PREFORK, 2.0)
        for store in ("PostgreSQL", "SQLite")
    ),
    Target("bulk: PostgreSQL / graphile-worker", ("bulk", _PG), (("bulk", "graphile-worker, best, async"),), 1.8),
    Target("one by one: PostgreSQL / asyncpg", ("one by one", _PG), (("one by one", "asyncpg, raw, async"),), 0.95),
    Target("one by one: SQLite / sqlite3", ("one by one", _LITE), (("one by one", "sqlite3, raw, def"),), 0.95),
    Target("one by one: SQLite / in a thread", ("one by one", _LITE), (("one by one", "sqlite3 in a thread, raw, async"),), 0.95),
)
LIMITS = (Limit("latency p50 at 50/s", ("p50 at 50", _PG), 2.2), Limit("latency p99 at 50/s", ("p99 at 50", _PG), 6.0))
_FASTEST = Limit("latency p50 at 50/s: fastest peer / PostgreSQL", ("p50 at 50", _PG), 0.0)


def ratio(book: Book, target: Target) -> float | None:
    """Return the median of the rounds' ratios; ``None`` where one side was not measured."""
    ours = book.entries.get(target.above, [])
    others = [book.entries[cell] for cell in target.below if cell in book.entries]
    found = []
    for number, value in enumerate(ours):
        theirs = [values[number] for values in others if number < len(values) and not math.isnan(values[number])]
        if theirs and not math.isnan(value):
            found.append(value / max(theirs))
    return statistics.median(found) if found else None


def times(book: Book, figure: str, peer: str, ours: str) -> float | None:
    """Return how many times a peer's figure Holdfast's is, so that more is better; for a latency the other way round."""
    above, below = ((figure, peer), (figure, ours)) if figure.startswith("p") else ((figure, ours), (figure, peer))
    return ratio(book, Target("", above, (below,), 0.0))


class Judgment(Struct, frozen=True):
    """A target, what was found, and in how many rounds."""

    text: str
    wanted: str
    found: float
    is_met: bool
    rounds: int


def judged(book: Book) -> Iterator[Judgment]:
    """Yield all targets that were measured."""
    for target in TARGETS:
        found = ratio(book, target)
        if found is not None:
            yield Judgment(target.text, f"≥ {target.least:g} ×", found, found >= target.least, len(book.entries[target.above]))
    theirs = [book.median(*cell) for cell in book.entries if cell[0] == _FASTEST.cell[0] and not cell[1].startswith("holdfast")]
    ours, known = book.median(*_FASTEST.cell), [value for value in theirs if value is not None]
    if ours is not None and known:
        yield Judgment(_FASTEST.text, "≥ 1 ×", min(known) / ours, min(known) >= ours, len(book.entries[_FASTEST.cell]))
    for limit in LIMITS:
        value = book.median(*limit.cell)
        if value is not None:
            yield Judgment(limit.text, f"≤ {limit.most:g} ms", value, value <= limit.most, len(book.entries[limit.cell]))
