"""Rounds: every peer once in each, one after the other, so that whatever the machine does meanwhile happens to all."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench import figures
from bench.figures import Figures, Sizes
from bench.peers import Peer, Queue
from bench.peers.holdfast import Holdfast
from bench.peers.huey import Huey
from bench.peers.raw import Raw, RawInThread
from holdfast._core.job import State

PEERS: tuple[type[Peer], ...] = (Raw, RawInThread)
QUEUES: tuple[type[Queue], ...] = (Huey, Holdfast)
CROWDS = {State.AVAILABLE: "waiting", State.COMPLETED: "finished"}

Told = Callable[[str], None]


class Limits(Struct, frozen=True):
    """So many rounds, none of them begun after so many seconds."""

    rounds: int
    seconds: float


class Book:
    """What was measured: for each figure and peer, one number a round."""

    def __init__(self) -> None:
        self.entries: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, peer: str, found: Figures) -> None:
        """Of one peer in one round."""
        for figure, value in found.items():
            self.entries[figure, peer].append(value)

    def median(self, figure: str, peer: str) -> float | None:
        """Over the rounds; ``None`` if it was not measured."""
        values = self.entries.get((figure, peer))
        return statistics.median(values) if values else None

    def ratio(self, above: tuple[str, str], below: tuple[str, str]) -> float | None:
        """The median of the rounds' own ratios: two numbers of one round share the machine's mood, medians need not."""
        pairs = zip(self.entries.get(above, ()), self.entries.get(below, ()), strict=False)
        ratios = [one / other for one, other in pairs]
        return statistics.median(ratios) if ratios else None


async def play(book: Book, limits: Limits, sizes: Sizes, scale: int, folder: Path, told: Told) -> int:
    """Whole rounds while there is time, at least one; how many. What is compared runs side by side, and in turn first."""
    crowded = [await _crowded(state, scale, folder, told) for state in CROWDS] if scale else []
    began = time.monotonic()
    for number in range(1, limits.rounds + 1):
        if number > 1 and time.monotonic() - began > limits.seconds:
            return number - 1
        acts: list[Callable[[], Awaitable[str]]] = [partial(_on_fresh_file, book, kind, sizes, folder) for kind in PEERS]
        acts += [partial(_of_queue, book, queue, sizes, folder) for queue in QUEUES]
        acts += [partial(_beside, book, database, sizes) for database in crowded]
        # Holdfast stays between the peers and the crowds; whoever was first is last in the next round.
        for act in acts if number % 2 else reversed(acts):
            told(f"round {number} of {limits.rounds}: {await act()}")
    return limits.rounds


async def _on_fresh_file(book: Book, kind: type[Peer], sizes: Sizes, folder: Path) -> str:
    peer = await kind.on(folder / f"{kind.name}.db")
    book.add(peer.name, await figures.enqueues(peer, sizes))
    await _discard(peer)
    return peer.name


async def _of_queue(book: Book, kind: type[Queue], sizes: Sizes, folder: Path) -> str:
    peer = await kind.on(folder / f"{kind.name}.db")
    book.add(peer.name, await _life(peer, sizes))
    book.add(peer.name, await figures.latencies(peer, sizes))
    await _discard(peer)
    return peer.name


async def _beside(book: Book, database: Path, sizes: Sizes) -> str:
    peer = await Holdfast.on(database)
    name = f"{peer.name} beside {database.stem}"
    book.add(name, await _life(peer, sizes))
    await peer.close()
    return name


async def _life(peer: Queue, sizes: Sizes) -> Figures:
    """Enqueue in three ways, then run all of it."""
    found = {**await figures.enqueues(peer, sizes), **await figures.crowds(peer, sizes)}
    return {**found, **await figures.drain(peer)}


async def _discard(peer: Peer) -> None:
    await peer.close()
    for name in os.listdir(peer.database.parent):
        if name.startswith(f"{peer.name}."):
            os.unlink(peer.database.parent / name)


async def _crowded(state: State, scale: int, folder: Path, told: Told) -> Path:
    database = folder / f"{CROWDS[state]}.db"
    told(f"writing {scale:,} {CROWDS[state]} jobs")
    peer = await Holdfast.on(database)
    peer.seed(state, scale)
    await peer.close()
    return database
