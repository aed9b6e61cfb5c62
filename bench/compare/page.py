"""The tables and the chart of docs/performance.md, from the stored results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.compare import targets
from bench.compare.catalogue import OURS, PEERS, Entry, Peer, Store
from bench.compare.figures import NAMES
from bench.compare.results import Contest, number, read, title
from bench.rounds import Book

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- results: python -m bench.compare --page -->", "<!-- end of results -->"
HEADS = {
    "drain": "Jobs that do nothing, per second, drained by one and by two worker processes",
    "enqueue": "Jobs enqueued per second: by one caller, 10 and 100 at once, and in calls of 1,000",
    "latency": "Milliseconds from the call of enqueue to the handler, in one idle worker, at 50 and at 500 jobs a second",
    "payload": "Jobs per second with payloads of 4 KB and 64 KB",
}
UNIT = {"p50 at 50": "p50, 50/s", "p99 at 50": "p99, 50/s", "p50 at 500": "p50, 500/s", "p99 at 500": "p99, 500/s"}


def write(results: Path) -> int:
    """Write the tables between the fences of the page, and the chart."""
    contests = [(name, contest, contest.book()) for name, contest in read(results)]
    books = [book for _, _, book in contests]
    lines = [BEGIN, "", *_targets(books), ""]
    for act, head in HEADS.items():
        rows = list(_rows(act, books))
        if rows:
            lines += [f"**{head}.**", "", *_table(act, rows), ""]
    lines += [*_settings(contests), "", END]
    page = DOCS / "performance.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(before + "\n".join(lines) + rest.partition(END)[2], encoding="utf-8")
    from bench.compare.chart import draw  # noqa: PLC0415 - matplotlib takes half a second to load

    draw(list(_pairs(books)), DOCS / "images/performance.svg")
    return 0


def rival(peer: Peer, entry: Entry, act: str) -> str:
    """Return the entry of Holdfast's that an entry is compared with: at its defaults, in a drain with the same kind of handler."""
    store = "SQLite" if peer.store is Store.SQLITE else "PostgreSQL"
    return f"holdfast, {store}, defaults, {entry.kind if act == 'drain' else 'async'}"


def _entries(act: str, books: Sequence[Book]) -> Iterator[tuple[Peer, Entry, Book]]:
    """Yield the entries that have figures of an act, each with the book of the most rounds."""
    for peer in (*OURS, *PEERS):
        for entry in peer.entries:
            keys = [(figure, title(peer, entry)) for figure in NAMES[act]]
            found = [book for book in books if any(book.median(*key) for key in keys)]
            if found:
                yield peer, entry, max(found, key=lambda book: max(len(book.entries.get(key, [])) for key in keys))


def _rows(act: str, books: Sequence[Book]) -> Iterator[list[str]]:
    for peer, entry, book in _entries(act, books):
        name, ours = title(peer, entry), rival(peer, entry, act)
        cells = []
        for figure in NAMES[act]:
            value, times = book.median(figure, name), targets.times(book, figure, name, ours)
            cells.append(f"{number(value)} ({_times(times)})" if times is not None else number(value))
        rounds = max(len(book.entries.get((figure, name), [])) for figure in NAMES[act])
        yield [name, *cells, str(rounds)]


def _table(act: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| peer, setting, handler | {' | '.join(UNIT.get(figure, figure) for figure in NAMES[act])} | rounds |"
    yield "|---" * (len(NAMES[act]) + 2) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _targets(books: Sequence[Book]) -> Iterator[str]:
    """Yield each target once, from the run with the most rounds of it."""
    best: dict[str, targets.Judgment] = {}
    for each in (each for book in books for each in targets.judged(book)):
        if each.text not in best or each.rounds > best[each.text].rounds:
            best[each.text] = each
    yield "| Holdfast | wanted | found | | rounds |"
    yield "|---|---|---|---|---|"
    for each in best.values():
        yield f"| {each.text} | {each.wanted} | {each.found:.2f} | {'yes' if each.is_met else '**no**'} | {each.rounds} |"


def _settings(contests: Sequence[tuple[str, Contest, Book]]) -> Iterator[str]:
    measured = {entry for _, _, book in contests for _, entry in book.entries}
    yield "| peer | packages | best setting, and where it is from | defaults |"
    yield "|---|---|---|---|"
    for peer in PEERS:
        texts = {entry.setting: entry.text for entry in reversed(peer.entries) if title(peer, entry) in measured}
        if texts:
            best = f"{texts.get('best', '')} ({peer.source})"
            yield f"| {peer.name} | {', '.join(peer.packages)} | {best} | {texts.get('defaults', '')} |"
    for name, contest, _ in contests:
        about = contest.about
        yield f"\n`{name}`: {about['date']}, {about['machine']}, {about['python']}, disk {about['disk']}."


def _pairs(books: Sequence[Book]) -> Iterator[tuple[str, str, float, float]]:
    """Yield figure, peer, its value and Holdfast's of the same rounds, for the best setting of each."""
    for figure, act in (("drain 1", "drain"), ("bulk", "enqueue"), ("p50 at 50", "latency")):
        for peer, entry, book in _entries(act, books):
            value, ours = book.median(figure, title(peer, entry)), book.median(figure, rival(peer, entry, act))
            if value and ours and entry.setting == "best" and peer not in OURS:
                yield figure, f"{peer.name}, {entry.kind}" if act == "drain" else peer.name, value, ours


def _times(value: float) -> str:
    return f"{value:.0f} ×" if value >= 10 else f"{value:.2g} ×"
