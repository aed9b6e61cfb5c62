"""The figures that Holdfast must keep on MongoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from bench.mongo.rates import BARE, BATCHES, CPU, OURS, PAYLOADS, RAW
from bench.rounds import Book

Value = Callable[[Book], float | None]


class Must(Struct, frozen=True):
    """A figure. ``least`` or ``most``: the bound that it must keep. ``by_cpu``: the same by computing time."""

    text: str
    value: Value
    by_cpu: Value
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
    by_cpu: float | None
    is_met: bool


def judge(book: Book, peers: Sequence[str]) -> list[Judged]:
    """Return those figures that were measured."""
    found = ((each, each.value(book)) for each in musts(peers))
    return [
        Judged(each.text, each.bound, value, each.by_cpu(book), each.is_met(value)) for each, value in found if value is not None
    ]


def musts(peers: Sequence[str]) -> Iterator[Must]:
    """Yield all of them."""
    for peer in peers:
        yield _compared(f"drain, as a multiple of {peer}'s", "drain", OURS, peer, 12.0)
    yield _compared("drain, as a part of the bare commands'", "drain", OURS, BARE, 0.5)
    for name, least in (("k=500", 1.25), ("2 processes", 1.15), ("4 processes", 1.1)):
        yield _compared(f"drain with {name}, as a multiple of one process with k=100", "drain", name, OURS, least)
    for callers in ("1 caller", "10 callers"):
        yield _compared(f"enqueue one by one, {callers}, as a part of insert_one", callers, OURS, RAW, 0.8)
        for peer in peers:
            yield _compared(f"enqueue one by one, {callers}, as a multiple of {peer}'s", callers, OURS, peer, 1.4)
    for size, least in zip(BATCHES, (0.65, 0.75, 0.8), strict=True):
        yield _compared(f"enqueue in batches of {size:,}, as a part of insert_many", f"batch {size}", OURS, RAW, least)
    yield _limited("latency, idle worker, p50 in ms", "p50", 10.0)
    yield _limited("latency, idle worker, p99 in ms", "p99", 30.0)
    for peer in peers:
        yield _compared(f"latency p50 of {peer}, as a multiple of ours", "p50", peer, OURS, 8.0)
    yield _limited("50 failed attempts in one exchange, ms", "50 failed", 12.0)
    yield _limited("beat with many running jobs, documents written", "beat writes", 1.0)
    yield _limited("beat with many running jobs, ms", "beat", 5.0)
    yield _limited("all orphans back in line, s", "orphans", 5.0)
    yield _compared("drain beside other jobs, as a part of that without", "drain", "beside others", OURS, 0.9)
    yield _compared("drain beside idle listeners, as a part of that without", "drain", "idle listeners", OURS, 0.85)
    yield _limited("writes of an idle worker beside its beats", "idle writes", 0.0)
    for name, least in zip(PAYLOADS, (0.8, 0.35), strict=True):
        yield _compared(f"drain with payloads of {name}, as a part of small ones", "drain", name, OURS, least)


def _compared(text: str, figure: str, above: str, below: str, least: float) -> Must:
    def ratio(figure: str) -> Value:
        return lambda book: book.ratio((figure, above), (figure, below))

    return Must(text, ratio(figure), ratio(f"{figure} {CPU}"), least=least)


def _limited(text: str, figure: str, most: float) -> Must:
    return Must(text, lambda book: book.median(figure, OURS), lambda _: None, most=most)
