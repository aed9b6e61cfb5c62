"""``python -m bench.workflows``: what a member of a workflow costs beside a plain job, and how long one move of many members takes.

One client claims and settles through the store alone. ``layers``: nodes in layers of ``--room``, each with three parents in the layer
before, by claims of that many jobs. ``chain``: nodes one after the other. Both are compared with as many plain jobs, claimed in the same
way, in the same round. ``wide`` and ``failure`` time a single settle: of the parent of ``--children`` nodes that it releases, and of the
first node of a chain of ``--depth``, which fails with all behind it. Each also prints how long the client's process computed, and by how
much its event loop was late.
``worker`` compares a process with default settings that runs plain jobs and a workflow of as many nodes: ``--layers`` of them, in layers of
``--room``. The nodes wait for their parents, or also take their results.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from bench.lanes import databases
from bench.workflow_workers import KINDS, seconds_of
from holdfast._core.answers import Answer
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Claim, NewJob
from holdfast._core.lifecycle import Transition, finish
from holdfast._core.member import Member
from holdfast._core.outcome import Done, Fail, Outcome
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._core.workflow import Edge, NewFlow, NewMember, gate_edges
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_store
from holdfast.settings import Settings

Result = TypeVar("Result")

CHUNK = 1000
TTL = 300.0
POLICY = Policy()
CHANCE = SystemRandomness()


class Bench:
    """A fresh store with one lease, under which all jobs are claimed."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_store(Settings.of(url))
        self._lease = CHANCE.uuid4()

    async def __aenter__(self) -> Bench:
        await self.store.migrate()
        await self.store.open_lease(
            NewLease(self._lease, "bench", ProcessIdentity("bench", 1), LeaseTiming.of(TTL), (), ("job",))
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()

    async def claim(self, room: int, settled: Sequence[Transition] = ()) -> tuple[Claim, ...]:
        """Settle and claim in one exchange."""
        request = ClaimRequest(lease=self._lease, claim=CHANCE.uuid4(), tasks={"job": POLICY}, limit=room)
        return (await self.store.exchange(settled, request)).claims

    async def drain(self, number: int, room: int) -> float:
        """Claim and complete this number of jobs; return how many a second."""
        begun, left, held = time.perf_counter(), number, tuple[Claim, ...]()
        while left > 0:
            held = await self.claim(room, [finished(claim) for claim in held])
            left -= len(held)
        await self.store.exchange([finished(claim) for claim in held])
        return number / (time.perf_counter() - begun)

    async def settle_first(self, outcome: Outcome) -> tuple[float, float, float]:
        """Claim one job and settle it.

        Return how long that took, how long this process computed, and by how much the event loop was late, in seconds.
        """
        (claim,) = await self.claim(1)
        begun, computed = time.perf_counter(), time.process_time()
        answer, late = await beside(self.store.exchange([finish(claim.job, outcome, jitter=0.0)]))
        assert answer.answers == (Answer.APPLIED,)
        return time.perf_counter() - begun, time.process_time() - computed, late

    async def add_jobs(self, number: int) -> None:
        """Enqueue this number of jobs that belong to no workflow."""
        for first in range(0, number, CHUNK):
            await self.store.enqueue(CHANCE.uuid4(), [new_job() for _ in range(min(CHUNK, number - first))])

    async def add_flow(self, parents: Sequence[Sequence[int]]) -> float:
        """Enqueue a workflow, whose nodes depend on these earlier ones; return how long that took, in seconds."""
        begun = time.perf_counter()
        await store_defaults.workflows(self.store).enqueue_flow(CHANCE.uuid4(), flow_of(parents))
        return time.perf_counter() - begun


def new_job() -> NewJob:
    """Return a job with a short payload, not stored yet."""
    return NewJob(id=CHANCE.uuid7(), task="job", queue="default", priority=0, payload=b'{"n": 1}', policy=POLICY)


def flow_of(parents: Sequence[Sequence[int]]) -> NewFlow:
    """Return a workflow, given for each node the numbers of its parents."""
    root, jobs = new_job(), [new_job() for _ in parents]
    edges = [Edge(jobs[parent].id, job.id) for job, some in zip(jobs, parents, strict=True) for parent in some]
    members = tuple(NewMember(job, Member(flow=root.id, node=f"n{number}")) for number, job in enumerate(jobs))
    gate = NewMember(root, Member(flow=root.id, node="root", is_gate=True))
    return NewFlow(root=gate, members=members, edges=(*edges, *gate_edges(root.id, [job.id for job in jobs], edges)))


def layers(nodes: int, width: int) -> list[list[int]]:
    """Return the parents of nodes in layers: each depends on three nodes of the layer before."""
    return [[n - n % width - width + (n + step) % width for step in range(3)] if n >= width else [] for n in range(nodes)]


def chain(nodes: int) -> list[list[int]]:
    """Return the parents of nodes that follow one another."""
    return [[number - 1] if number else [] for number in range(nodes)]


def finished(claim: Claim) -> Transition:
    """Return the transition of a job that has completed."""
    return finish(claim.job, Done(b"null"), jitter=0.0)


async def beside(call: Awaitable[Result]) -> tuple[Result, float]:
    """Await a call; return its answer, and by how many seconds the event loop was late at most before that."""
    latest, end = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal latest
        while not end.is_set():
            asked = time.perf_counter()
            await asyncio.sleep(0.001)
            latest = max(latest, time.perf_counter() - asked - 0.001)

    watching = asyncio.create_task(watch())
    answer = await call
    end.set()
    await watching
    return answer, latest


def main(arguments: Sequence[str]) -> int:
    """Measure the chosen figures on one server, and print the medians."""
    options = _parser().parse_args(arguments)
    with databases(options) as found:
        for name in options.figures:
            asyncio.run(FIGURES[name](found, options))
    return 0


async def _drained(name: str, parents: list[list[int]], room: int, urls: Iterator[str], options: argparse.Namespace) -> None:
    rates, ratios, stored = list[float](), list[float](), list[float]()
    for _ in range(options.rounds):
        async with Bench(next(urls)) as bench:
            await bench.add_jobs(len(parents))
            plain = await bench.drain(len(parents), room)
        async with Bench(next(urls)) as bench:
            stored.append(await bench.add_flow(parents))
            rates.append(await bench.drain(len(parents), room))
        ratios.append(plain / rates[-1])
    rate, times, enqueue = (statistics.median(each) for each in (rates, ratios, stored))
    print(f"{options.store}: {name}: {rate:,.0f} nodes/s, {times:.2f} times as long as a plain job; stored in {enqueue:.3f} s")


async def _layers(urls: Iterator[str], options: argparse.Namespace) -> None:
    graph = layers(options.nodes, options.room)
    await _drained(f"{options.nodes:,} nodes in layers of {options.room}", graph, options.room, urls, options)


async def _chain(urls: Iterator[str], options: argparse.Namespace) -> None:
    await _drained(f"a chain of {options.depth:,}", chain(options.depth), 1, urls, options)


async def _settled(
    name: str, parents: list[list[int]], outcome: Outcome, urls: Iterator[str], options: argparse.Namespace
) -> None:
    found = list[tuple[float, float, float]]()
    for _ in range(options.rounds):
        async with Bench(next(urls)) as bench:
            await bench.add_flow(parents)
            found.append(await bench.settle_first(outcome))
    took, computed, late = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"{options.store}: {name}: {took:.3f} s, {computed:.3f} s of the client's CPU; the event loop was late by {late:.3f} s")


async def _wide(urls: Iterator[str], options: argparse.Namespace) -> None:
    for children in options.children:
        graph: list[list[int]] = [[], *[[0]] * children]
        await _settled(f"one parent releases {children:,} children", graph, Done(b"null"), urls, options)


async def _failure(urls: Iterator[str], options: argparse.Namespace) -> None:
    await _settled(f"the first of a chain of {options.depth:,} fails", chain(options.depth), Fail("no"), urls, options)


async def _worker(urls: Iterator[str], options: argparse.Namespace) -> None:
    ratios = defaultdict[str, list[float]](list)
    for _ in range(options.rounds):
        took = {kind: await asyncio.to_thread(seconds_of, next(urls), options.layers, options.room, kind) for kind in KINDS}
        for kind in KINDS[1:]:
            ratios[kind].append(took[kind] / took["plain"])
    for kind, found in ratios.items():
        name = f"a worker, {options.layers:,} {kind} nodes in layers of {options.room}"
        print(f"{options.store}: {name}: {statistics.median(found):.2f} times as long as plain jobs")


FIGURES = {"layers": _layers, "chain": _chain, "wide": _wide, "failure": _failure, "worker": _worker}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.workflows", description=__doc__)
    parser.add_argument("figures", nargs="*", default=list(FIGURES), help=f"some of {', '.join(FIGURES)}; default: all")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--nodes", type=int, default=5000, help="how many nodes in layers; default 5000")
    parser.add_argument("--room", type=int, default=100, help="how many jobs a claim asks for, and a layer has; default 100")
    parser.add_argument("--depth", type=int, default=1000, help="how many nodes a chain has; default 1000")
    wide = 10_000, 100_000
    parser.add_argument(
        "--children", type=int, nargs="+", default=wide, help="how many one parent has; default 10000, then 100000"
    )
    parser.add_argument("--layers", type=int, default=1000, help="how many nodes a worker has in layers; default 1000")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured; default 3")
    parser.add_argument("--folder", type=Path, help="where the data is; default: the temporary folder")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
