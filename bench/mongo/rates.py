"""Rates and latencies in interleaved rounds: every queue once in each, one after the other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct

from bench import figures
from bench.figures import Sizes
from bench.mongo.bare_store import BareStore
from bench.mongo.crowd import add_others, listeners
from bench.mongo.node_peers import Kind, NodePeer
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.raw import Raw
from bench.mongo.site import Site
from bench.peers import Runner
from bench.rounds import Book
from bench.rows.cpu import used_by

OURS, RAW, BARE, STORE = "holdfast", "raw", "bare commands", "store without engine"
BATCHES = (10, 100, 1000)
PAYLOADS = {"4 KiB": 4096, "64 KiB": 65536}
POLL = 0.02  # a look every 5 ms would cost the server a tenth of its time
SETTLED = 1.5  # seconds after which started workers are idle
CPU = "per second of computing"
LogLine = Callable[[str], None]


class Numbers(Struct, frozen=True, kw_only=True):
    """How many jobs each figure takes. ``others``: the jobs beside which a drain is measured again."""

    one_by_one: int = 1_000
    batches: int = 10_000
    drain: int = 20_000
    peers: int = 2_000
    pings: int = 250
    others: int = 800_000
    listeners: int = 64


class Enqueues(Protocol):
    """What enqueues one by one."""

    async def enqueue_rate(self, count: int, callers: int) -> float:
        """Return the jobs a second of callers, each one by one."""
        ...


class Rates:
    """The figures of each round, written into a book."""

    def __init__(self, site: Site, kinds: Sequence[Kind], numbers: Numbers, book: Book, log_line: LogLine) -> None:
        self._site, self._kinds, self._numbers, self._book, self._log_line = site, kinds, numbers, book, log_line

    async def round(self, number: int, parts: Sequence[str]) -> None:
        """Run the acts of the parts; in each second round in the opposite order."""
        acts = [(name, act) for part in parts for name, act in self._acts(part)]
        for name, act in acts if number % 2 == 0 else reversed(acts):
            self._log_line(f"round {number + 1}: {name}")
            await act()

    def _acts(self, part: str) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """Return the acts of a part."""
        if part == "enqueue":
            return [(RAW, self._raw_enqueues), (f"{OURS} enqueues", self._our_enqueues)]
        if part == "peers":
            return [(each.name, partial(self._peer, each)) for each in self._kinds]
        if part == "latency":
            return [(f"{OURS} latency", self._our_latency)]
        if part == "store":
            return [(BARE, self._bare), (STORE, self._store)]
        if part == "drain":
            variants = [("k=500", 500, 1), ("2 processes", 100, 2), ("4 processes", 100, 4)]
            more = [(name, partial(self._variant, name, k, processes)) for name, k, processes in variants]
            return [(OURS, partial(self._variant, OURS, 100, 1)), *more]
        return [
            ("beside others", self._beside),
            ("idle listeners", self._beside_listeners),
            *((name, partial(self._payload, name, size)) for name, size in PAYLOADS.items()),
        ]

    async def _raw_enqueues(self) -> None:
        raw = await Raw.at(self._site)
        await self._singles(RAW, raw)
        for size in BATCHES:
            await self._add(RAW, f"batch {size}", self._numbers.batches, raw.enqueue_batches(self._numbers.batches, size))
        await raw.close()

    async def _our_enqueues(self) -> None:
        ours = await HoldfastOnMongo.at(self._site)
        await self._singles(OURS, ours)
        for size in BATCHES:
            await self._add(OURS, f"batch {size}", self._numbers.batches, ours.enqueue_batches(self._numbers.batches, size))
        await self._end(ours)

    async def _singles(self, name: str, queue: Enqueues) -> None:
        await queue.enqueue_rate(100, 10)  # connections are open
        for callers, figure in ((1, "1 caller"), (10, "10 callers")):
            await self._add(name, figure, self._numbers.one_by_one, queue.enqueue_rate(self._numbers.one_by_one, callers))

    async def _add(self, name: str, figure: str, count: int, act: Awaitable[float]) -> None:
        """Write down a rate, and the same for each second of computing of all processes of the bench, the server's included."""
        used = used_by(os.getpid())
        rate = await act
        self._book.add(name, {figure: rate, f"{figure} {CPU}": count / max(0.01, used_by(os.getpid()) - used)})

    async def _peer(self, kind: Kind) -> None:
        peer = await NodePeer.at(self._site, kind)
        await self._latency(peer)
        await peer.close()
        peer = await NodePeer.at(self._site, kind)
        await self._singles(kind.name, peer)
        missing = self._numbers.peers - peer.waiting()
        if missing > 0:
            await peer.enqueue_rate(missing, 10)
        await self._drain(kind.name, peer)
        await peer.close()
        self._site.clear(peer.place)

    async def _latency(self, queue: Runner) -> None:
        try:
            found = await figures.latencies(queue, Sizes(pings=self._numbers.pings))
            self._book.add(queue.name, found)
        except TimeoutError as error:
            self._log_line(f"{queue.name}: {error}")

    async def _drain(self, name: str, queue: Runner) -> None:
        first, count = queue.first(), queue.waiting()
        try:
            async with figures.running(queue):
                await figures.until(lambda: queue.has_begun(first))
                await self._add(name, "drain", count, self._until_drained(queue, first, count))
        except TimeoutError as error:
            self._log_line(f"{name}: {error}")

    async def _until_drained(self, queue: Runner, first: object, count: int) -> float:
        return (await figures.timed_drain(queue, first, count, POLL))["drain"]

    async def _our_latency(self) -> None:
        ours = await HoldfastOnMongo.at(self._site)
        await self._latency(ours)
        await self._end(ours)

    async def _bare(self) -> None:
        raw = await Raw.at(self._site)
        await raw.enqueue_batches(self._numbers.drain, 1000)
        await self._add(BARE, "drain", self._numbers.drain, raw.drain_rate(self._numbers.drain, 100))
        await raw.close()

    async def _store(self) -> None:
        bare = await BareStore.at(self._site)
        await bare.fill(self._numbers.drain)
        await self._add(STORE, "drain", self._numbers.drain, bare.drain_rate(self._numbers.drain, 100))
        await bare.close()

    async def _variant(self, name: str, concurrency: int, processes: int) -> None:
        ours = await HoldfastOnMongo.at(self._site)
        ours.concurrency, ours.processes = concurrency, processes
        await ours.enqueue_batches(self._numbers.drain, 1000)
        await self._our_drain(name, ours)
        await self._end(ours)

    async def _beside(self) -> None:
        """Drain a store without others, then one beside them, so that both share the machine's mood."""
        ours = await HoldfastOnMongo.at(self._site)
        await add_others(ours, self._numbers.others)
        await ours.enqueue_batches(self._numbers.drain, 1000)
        await self._our_drain("beside others", ours)
        await self._end(ours)

    async def _beside_listeners(self) -> None:
        ours = await HoldfastOnMongo.at(self._site)
        await ours.enqueue_batches(self._numbers.drain, 1000)
        async with listeners(ours.place.url, self._numbers.listeners):
            await self._our_drain("idle listeners", ours)
        await self._end(ours)

    async def _payload(self, name: str, size: int) -> None:
        ours = await HoldfastOnMongo.at(self._site)
        count = self._numbers.drain if size < 10_000 else self._numbers.drain // 5
        await ours.enqueue_batches(count, 50, "x" * size)
        await self._our_drain(name, ours)
        await self._end(ours)

    async def _our_drain(self, name: str, ours: HoldfastOnMongo) -> None:
        """Measure workers that have started: what they do before is not a drain."""
        await ours.pause()
        first, count = ours.first(), ours.waiting()
        try:
            async with figures.running(ours):
                await figures.until(ours.is_up, POLL)
                await asyncio.sleep(SETTLED)
                await ours.resume()
                await self._add(name, "drain", count, self._until_drained(ours, first, count))
        except TimeoutError as error:
            self._log_line(f"{name}: {error}")

    async def _end(self, ours: HoldfastOnMongo) -> None:
        await ours.close()
        self._site.clear(ours.place)
