"""Rounds: every peer once in each, one after the other, so that a slow moment of the machine happens to all."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from msgspec import Struct

from bench import figures
from bench.figures import Figures, Sizes
from bench.peers import Peer, Place, Queue
from bench.races import Ground, Race
from holdfast._core.job import State

CROWDS = {State.AVAILABLE: "waiting", State.COMPLETED: "finished"}

LogLine = Callable[[str], None]


class Limits(Struct, frozen=True):
    """The number of rounds, and the seconds after which none is begun."""

    rounds: int
    seconds: float


class Book:
    """What was measured: for each figure and peer, one number a round; no number where a peer stood still."""

    def __init__(self) -> None:
        self.entries: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, peer: str, found: Figures) -> None:
        """Add a figure of one peer in one round."""
        for figure, value in found.items():
            self.entries[figure, peer].append(value)

    def median(self, figure: str, peer: str) -> float | None:
        """Over the rounds; ``None`` if it was not measured."""
        values = [value for value in self.entries.get((figure, peer), ()) if not math.isnan(value)]
        return statistics.median(values) if values else None

    def ratio(self, above: tuple[str, str], below: tuple[str, str]) -> float | None:
        """Return the median of the rounds' ratios: two numbers of one round share the machine's mood, medians need not."""
        pairs = zip(self.entries.get(above, ()), self.entries.get(below, ()), strict=False)
        ratios = [one / other for one, other in pairs if not math.isnan(one / other)]
        return statistics.median(ratios) if ratios else None


class Play:
    """One race on its ground."""

    def __init__(self, race: Race, ground: Ground, sizes: Sizes, book: Book, log_line: LogLine) -> None:
        self._race = race
        self._ground = ground
        self._sizes = sizes
        self._book = book
        self._log_line = log_line

    async def run(self, limits: Limits, scale: int) -> int:
        """Whole rounds while there is time, at least one; how many. What is compared runs side by side, and in turn first."""
        crowded = [await self._crowded(state, scale) for state in CROWDS] if scale else []
        acts: list[Callable[[], Awaitable[str]]] = [partial(self._enqueue, kind) for kind in self._race.peers]
        acts += [partial(self._live, queue) for queue in self._race.queues]
        acts += [partial(self._beside, place) for place in crowded]
        began = time.monotonic()
        for number in range(1, limits.rounds + 1):
            if number > 1 and time.monotonic() - began > limits.seconds:
                return number - 1
            # Holdfast stays between the peers and the crowds; the first peer of a round is last in the next one.
            for act in acts if number % 2 else reversed(acts):
                self._log_line(f"{self._race.title}, round {number} of {limits.rounds}: {await act()}")
        return limits.rounds

    async def _enqueue(self, kind: type[Peer]) -> str:
        place = self._ground.place(kind.name)
        peer = await kind.on(place)
        self._book.add(peer.name, await figures.enqueues(peer, self._sizes))
        await peer.close()
        self._ground.clear(place)
        return peer.name

    async def _live(self, kind: type[Queue]) -> str:
        place = self._ground.place(kind.name)
        peer = await kind.on(place)
        # First: a server that still tidies up behind what was drained is not idle.
        self._book.add(peer.name, await self._unless_it_stands(figures.latencies(peer, self._sizes), "p50", "p99"))
        self._book.add(peer.name, await self._life(peer))
        await peer.close()
        self._ground.clear(place)
        return peer.name

    async def _beside(self, place: Place) -> str:
        peer = await self._race.ours.on(place)
        name = f"{peer.name} beside {place.name}"
        self._book.add(name, await self._life(peer))
        await peer.close()
        return name

    async def _life(self, peer: Queue) -> Figures:
        """Enqueue in three ways, then run all of it."""
        sizes = self._sizes.part(peer.share)
        found = {**await figures.enqueues(peer, sizes), **await figures.crowds(peer, sizes)}
        return {**found, **await self._unless_it_stands(figures.drain(peer), "drain")}

    async def _unless_it_stands(self, act: Coroutine[Any, Any, Figures], *names: str) -> Figures:
        """Run a figure. A worker that does nothing any more has none in this round, and the others go on."""
        try:
            return await act
        except TimeoutError as error:
            self._log_line(str(error))
            return dict.fromkeys(names, math.nan)

    async def _crowded(self, state: State, scale: int) -> Place:
        place = self._ground.place(CROWDS[state])
        self._log_line(f"writing {scale:,} {CROWDS[state]} jobs")
        peer = await self._race.ours.on(place)
        peer.seed(state, scale)
        await peer.close()
        return place
