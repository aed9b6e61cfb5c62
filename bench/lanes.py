"""``python -m bench.lanes``: what queues, keys, limits and rates cost a claim, and how fairly tenants are served.

``drain``: one client claims and settles through the store alone, by claims of ``--room`` jobs, until all are done. Every layout runs
once a round on a fresh database, and a ratio is the median of the rounds' ratios to one plain queue. ``tenants``: a worker process with
default settings serves a tenant with many jobs and 99 that enqueue a few each; it is compared with the 99 without that one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from msgspec import Struct

from bench.races import SERVER
from holdfast import App
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Claim, NewJob, State
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import finish
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ClaimRequest, JobFilter, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_store
from holdfast.settings import Settings
from holdfast.testing.servers import PostgresServer

POLICY = Policy()
CHUNK = 1000
TTL = 300.0
TENANTS = 99


class Layout(Struct, frozen=True):
    """How jobs are spread, and the limit of their queue or task."""

    name: str
    queues: int = 1
    keys: int = 1
    limit: Limit | None = None


LAYOUTS = (
    Layout("one queue"),
    Layout("8 queues", queues=8),
    Layout("64 queues", queues=64),
    Layout("1,000 queues", queues=1000),
    Layout("5,000 queues", queues=5000),
    Layout("1,000 keys", keys=1000),
    Layout("one queue, limit that does not bind", limit=Limit(concurrency=100_000)),
    Layout("1,000 keys, five active each", keys=1000, limit=Limit(per_key=5)),
)


def main(arguments: Sequence[str]) -> int:
    """Measure the figure that is asked for, and print it."""
    options = _parser().parse_args(arguments)
    if options.figure == "drain":
        asyncio.run(_drain(options))
    else:
        _tenants(options)
    return 0


async def _drain(options: argparse.Namespace) -> None:
    layouts = [each for each in LAYOUTS if options.only is None or options.only in each.name or each is LAYOUTS[0]]
    rates: dict[str, list[float]] = {layout.name: [] for layout in layouts}
    with databases(options) as urls:
        for number in range(options.rounds):
            for layout in layouts:
                rate = await _rate(next(urls), layout, options)
                rates[layout.name].append(rate)
                print(f"round {number + 1}: {layout.name}: {rate:,.0f} jobs/s", file=sys.stderr)
    print(f"{options.store}: jobs/s drained by claims of {options.room}, median of {options.rounds}, beside one queue")
    plain = rates[LAYOUTS[0].name]
    for name, found in rates.items():
        ratio = statistics.median(one / other for one, other in zip(found, plain, strict=True))
        print(f"  {name:<38} {statistics.median(found):>9,.0f}   {ratio:.2f}")


async def _rate(url: str, layout: Layout, options: argparse.Namespace) -> float:
    store, chance = open_store(Settings.of(url)), SystemRandomness()
    try:
        await store.migrate()
        if layout.limit is not None:
            await store_defaults.limits(store).set_limit(Scope(ScopeKind.TASK, "job"), layout.limit, Origin())
        for first in range(0, options.jobs, CHUNK):
            jobs = [_job(chance.uuid7(), place, layout) for place in range(first, min(options.jobs, first + CHUNK))]
            await store.enqueue(chance.uuid4(), jobs)
        lease = chance.uuid4()
        await store.open_lease(NewLease(lease, "bench", ProcessIdentity("bench", 1), LeaseTiming.of(TTL), (), ("job",)))
        begun = time.perf_counter()
        await _claim_all(store, lease, layout, options)
        return float(options.jobs) / (time.perf_counter() - begun)
    finally:
        await store.close()


async def _claim_all(store: Store, lease: UUID, layout: Layout, options: argparse.Namespace) -> None:
    kind = ClaimKind.PLAIN if layout.limit is None else ClaimKind.LIMITED
    chance, cursor, left = SystemRandomness(), Cursor(), options.jobs
    held = tuple[Claim, ...]()
    while left > 0:
        request = ClaimRequest(
            lease=lease, claim=chance.uuid4(), tasks={"job": POLICY}, limit=options.room, cursor=cursor, kind=kind
        )
        answer = await store.exchange([finish(claim.job, Done(b"null"), jitter=0.0) for claim in held], request)
        held, cursor = answer.claims, answer.cursor
        left -= len(held)


def _job(job: UUID, place: int, layout: Layout) -> NewJob:
    queue, key = f"q{place % layout.queues:05}", f"k{place % layout.keys:05}" if layout.keys > 1 else ""
    return NewJob(id=job, task="job", queue=queue, key=key, priority=0, payload=b'{"n": 1}', policy=POLICY)


@contextmanager
def databases(options: argparse.Namespace) -> Iterator[Iterator[str]]:
    """Yield URLs of fresh databases."""
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder:
        if options.store == "sqlite":
            yield (f"sqlite:///{folder}/{number}.db" for number in range(10**6))
            return
        with PostgresServer(is_durable=True, settings=SERVER, data=Path(folder) / "data") as server:
            yield (server.create_database() for _ in range(10**6))


def _tenants(options: argparse.Namespace) -> None:
    with databases(options) as urls:
        without = _served(next(urls), 0, options)
        beside = _served(next(urls), options.jobs, options)
    print(
        f"{options.store}: {TENANTS} tenants, {options.rate:g} jobs/s together, seconds from enqueue to the first line of the handler"
    )
    for name, waits in (("without the large one", without), (f"beside {options.jobs:,} jobs of another", beside)):
        print(
            f"  {name:<38} p50 {_at(waits, 0.5):.4f}   p99 {_at(waits, 0.99):.4f}   longest {waits[-1]:.3f}   ({len(waits)} jobs)"
        )


def _served(url: str, backlog: int, options: argparse.Namespace) -> list[float]:
    """Return how long the jobs of the small tenants waited."""
    os.environ["BENCH_URL"] = url
    app = App(url)
    app.migrate()

    @app.task(name="job", key="tenant")
    async def job(tenant: str) -> None: ...

    for first in range(0, backlog, 10 * CHUNK):
        job.enqueue_many([{"tenant": "big"}] * min(10 * CHUNK, backlog - first))
    worker = subprocess.Popen([sys.executable, "-m", "holdfast.cli", "worker", "bench.lane_tasks:app", "--log-level", "error"])
    try:
        time.sleep(3.0)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            job.enqueue(tenant=f"t{random.randrange(TENANTS):02}")
            time.sleep(random.expovariate(options.rate))
        time.sleep(2.0)
    finally:
        worker.terminate()
        worker.wait()
        app.close()
    return asyncio.run(_waits(url))


async def _waits(url: str) -> list[float]:
    store, found, before = open_store(Settings.of(url)), list[float](), None
    try:
        for tenant in range(TENANTS):
            which = JobFilter(state=State.COMPLETED, key=f"t{tenant:02}", limit=10_000, before=before)
            found += [(row.started_at - row.created_at).total_seconds() for row in await store.list(which) if row.started_at]
        return sorted(found)
    finally:
        await store.close()


def _at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.lanes", description=__doc__)
    parser.add_argument("figure", choices=("drain", "tenants"))
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--jobs", type=int, default=50_000, help="how many jobs, or how many the large tenant has; default 50000")
    parser.add_argument("--room", type=int, default=100, help="how many jobs a claim asks for; default 100")
    parser.add_argument("--rounds", type=int, default=3, help="how often each layout is drained; default 3")
    parser.add_argument("--only", help="a part of a layout's name; one queue runs as well")
    parser.add_argument("--rate", type=float, default=500.0, help="jobs a second of the small tenants; default 500")
    parser.add_argument("--seconds", type=float, default=20.0, help="for how long they enqueue; default 20")
    parser.add_argument("--folder", type=Path, help="where the data is; default: the temporary folder")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
