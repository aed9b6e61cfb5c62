"""The figures that Holdfast must keep on MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from bench.mongo.rates import BARE, BATCHES, OURS, PAYLOADS, RAW
from bench.rounds import Book

Value = Callable[[Book], float | None]


class Must(Struct, frozen=True):
    """A figure. ``least`` or ``most``: the bound that it must keep."""

    text: str
    value: Value
    least: float | None = None
    most: float | None = None

    @property
    def bound(self) -> str:
        """The bound, for readers."""
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def is_met(self, found: float) -> bool:
        """Return whether a value keeps the bound."""
        return (self.least is None or found >= self.least) and (self.most is None or found <= self.most)


class Judged(Struct, frozen=True):
    """A figure that was measured."""

    text: str
    must: str
    found: float
    is_met: bool


def judge(book: Book, peers: Sequence[str]) -> list[Judged]:
    """Return those figures that were measured."""
    found = ((each, each.value(book)) for each in musts(peers))
    return [Judged(each.text, each.bound, value, each.is_met(value)) for each, value in found if value is not None]


def musts(peers: Sequence[str]) -> Iterator[Must]:
    """Yield all of them."""
    for peer in peers:
        yield Must(f"drain, as a multiple of {peer}'s", _ratio("drain", OURS, peer), 12.0)
    yield Must("drain, as a part of the bare commands'", _ratio("drain", OURS, BARE), 0.5)
    for name, least in (("k=500", 1.25), ("2 processes", 1.15), ("4 processes", 1.1)):
        yield Must(f"drain with {name}, as a multiple of one process with k=100", _ratio("drain", name, OURS), least)
    for callers in ("1 caller", "10 callers"):
        yield Must(f"enqueue one by one, {callers}, as a part of insert_one", _ratio(callers, OURS, RAW), 0.8)
        for peer in peers:
            yield Must(f"enqueue one by one, {callers}, as a multiple of {peer}'s", _ratio(callers, OURS, peer), 1.4)
    for size, least in zip(BATCHES, (0.65, 0.75, 0.8), strict=True):
        yield Must(f"enqueue in batches of {size:,}, as a part of insert_many", _ratio(f"batch {size}", OURS, RAW), least)
    yield Must("latency, idle worker, p50 in ms", _median("p50"), most=10.0)
    yield Must("latency, idle worker, p99 in ms", _median("p99"), most=30.0)
    for peer in peers:
        yield Must(f"latency p50 of {peer}, as a multiple of ours", _ratio("p50", peer, OURS), 8.0)
    yield Must("50 failed attempts in one exchange, ms", _median("50 failed"), most=12.0)
    yield Must("beat with many running jobs, documents written", _median("beat writes"), most=1.0)
    yield Must("beat with many running jobs, ms", _median("beat"), most=5.0)
    yield Must("all orphans back in line, s", _median("orphans"), most=5.0)
    yield Must("drain beside other jobs, as a part of that without", _ratio("drain", "beside others", OURS), 0.9)
    yield Must("drain beside idle listeners, as a part of that without", _ratio("drain", "idle listeners", OURS), 0.85)
    yield Must("writes of an idle worker beside its beats", _median("idle writes"), most=0.0)
    for name, least in zip(PAYLOADS, (0.8, 0.35), strict=True):
        yield Must(f"drain with payloads of {name}, as a part of small ones", _ratio("drain", name, OURS), least)


def _ratio(figure: str, above: str, below: str) -> Value:
    return lambda book: book.ratio((figure, above), (figure, below))


def _median(figure: str) -> Value:
    return lambda book: book.median(figure, OURS)
