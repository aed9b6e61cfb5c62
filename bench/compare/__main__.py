"""``python -m bench.compare``: each peer beside Holdfast, in interleaved rounds; figures, ratios, and a file for each peer."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from bench.compare import page, results
from bench.compare.catalogue import OURS, PEERS, RAW, Entry, Peer, Store
from bench.compare.environments import Missing, ready
from bench.compare.figures import ACTS, QUICK, Sizes, nothing
from bench.compare.processes import Site, Stuck
from bench.machine import machine
from bench.peers_torture.redis import RedisServer
from bench.races import SERVER
from bench.rounds import Book
from holdfast.testing.servers import PostgresServer, ServerMissing

RESULTS = Path(__file__).parents[1] / "results/compare"
FEWEST = 100
"""Jobs of an entry that is not too slow for the latencies: pg-boss takes one job in two seconds at its defaults."""
KINDS = ("async", "def", "process")
Contestant = tuple[Peer, Entry]


def main(arguments: Sequence[str]) -> int:
    """Measure; return 0 also when a target is missed: a benchmark reports, it does not judge."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes of the peers end with it
    options = _parser().parse_args(arguments)
    if options.page:
        return page.write(options.results)
    if options.peers:
        _contest("-".join(options.peers), [peer for peer in PEERS if peer.name in options.peers], options)
        return 0
    for store in Store:
        _contest(store.lower(), [peer for peer in PEERS if peer.store is store], options)
    return 0


def _contest(name: str, peers: Sequence[Peer], options: argparse.Namespace) -> None:
    """Hold the rounds of some peers, and of Holdfast on the stores that they are compared with."""
    commands = {}
    for each in (*OURS, *RAW, *peers):
        try:
            commands[each.name] = ready(each, _log)
        except Missing as error:
            print(f"{each.name}: not measured: {error}", flush=True)
    peers = [peer for peer in peers if peer.name in commands]
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-compare-") as folder, ExitStack() as stack:
        stores = Stores(Path(folder), stack)
        about = {**machine(Path(folder)), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        about |= {peer.name: ", ".join(peer.packages) for peer in peers}
        sizes = QUICK if options.quick else Sizes()
        seconds = min(options.seconds, 200.0) if options.quick else options.seconds
        book, failed = results.earlier(name, options.results) if options.append else Book(), set[tuple[str, str]]()
        began = time.monotonic()
        for number in range(options.rounds):
            if number and (time.monotonic() - began) * (number + 1) / number > seconds:
                break  # another round would end too late
            for act in options.figures:
                contestants = [each for each in _contestants(peers, act) if each[1].kind in options.kinds or act == "enqueue"]
                for contestant in contestants if number % 2 else reversed(contestants):
                    _measure(contestant, act, sizes, book, stores, commands, failed)
                results.write(name, book, options.results, about)
            _log(f"{name}: round {number + 1} of {options.rounds}, {time.monotonic() - began:.0f} s")
    results.show(name, book)


def _measure(
    contestant: Contestant,
    act: str,
    sizes: Sizes,
    book: Book,
    stores: Stores,
    commands: dict[str, tuple[str, ...]],
    failed: set[tuple[str, str]],
) -> None:
    """Measure one act of one entry, in a fresh store. What has failed once is not tried again."""
    peer, entry = contestant
    title = results.title(peer, entry)
    if (title, act) in failed:
        book.add(title, nothing(act))
        return
    try:
        site = Site(peer, entry, commands[peer.name], stores.fresh(peer.store), stores.folder())
        found = ACTS[act](site, sizes)
        _log(f"  {title}: " + ", ".join(f"{name} {value:,.5g}" for name, value in found.items()))
    except (Stuck, ServerMissing) as error:
        _log(f"  {title}: {error}")
        failed.add((title, act))
        found = nothing(act)
    book.add(title, found)


def _contestants(peers: Sequence[Peer], act: str) -> Iterator[Contestant]:
    """Yield the entries that take part in an act, Holdfast's first: all kinds in a drain, else only the first kind of each."""
    stores = {peer.store for peer in peers}
    ours = [each for each in OURS if stores & {each.store, Store.REDIS}]
    raw = [each for each in RAW if act == "enqueue" and stores & {each.store, Store.REDIS}]
    kinds = {"async", *(entry.kind for peer in peers for entry in peer.entries)}
    for each in (*raw, *ours, *peers):
        for entry in each.entries:
            takes_part = {
                "drain": entry.kind in kinds and (entry.setting != "best" or each not in OURS or Store.POSTGRES in stores),
                "latency": entry.kind == each.entries[0].kind and entry.jobs >= FEWEST,
                "enqueue": entry is each.entries[0],
                "payload": entry is each.entries[0],
            }
            if takes_part[act]:
                yield each, entry


class Stores:
    """The servers, started when the first entry needs them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._postgres: PostgresServer | None = None
        self._redis: RedisServer | None = None
        self._count = 0

    def folder(self) -> Path:
        """Make an empty folder."""
        self._count += 1
        folder = self._folder / f"site{self._count}"
        folder.mkdir()
        return folder

    def fresh(self, store: Store) -> str:
        """Return the address of an empty store of that kind, as its peers write it."""
        if store is Store.SQLITE:
            return f"sqlite:///{self.folder()}/jobs.db"
        if store is Store.REDIS:
            self._redis = self._redis or self._stack.enter_context(RedisServer())
            return self._redis.create_database()
        if self._postgres is None:
            server = PostgresServer(is_durable=True, settings=SERVER, data=self._folder / "data")
            self._postgres = self._stack.enter_context(server)
        self._postgres.sql("CHECKPOINT")  # it belongs to what was, not to who comes next
        return self._postgres.create_database()


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.compare", description="Each peer beside Holdfast.")
    names = [peer.name for peer in PEERS]
    parser.add_argument(
        "peers", nargs="*", metavar="PEER", type=_peer, help=f"measured together, any of {', '.join(names)} [all]"
    )
    parser.add_argument("--figures", nargs="+", choices=ACTS, default=list(ACTS), help="[all]")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of handlers [all]")
    parser.add_argument("--rounds", type=int, default=5, help="every entry once in each [5]")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each peer; no round begins that would end later [600]")
    parser.add_argument("--quick", action="store_true", help="fewer jobs")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="a file for each peer [bench/results/compare]")
    parser.add_argument("--append", action="store_true", help="add the rounds to those of an earlier run with the same peers")
    parser.add_argument("--page", action="store_true", help="only write tables and chart of docs/performance.md from the results")
    return parser


def _peer(name: str) -> str:
    if all(name != peer.name for peer in PEERS):
        raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(peer.name for peer in PEERS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
