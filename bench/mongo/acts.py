"""Single acts of the store, and what an idle worker writes."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from uuid import UUID, uuid4

from bench import figures
from bench.figures import ROOT
from bench.mongo.bare_store import BareStore
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.site import Site
from bench.objects.queues import POLICY, TASK
from bench.rounds import Book
from holdfast import App
from holdfast._core.job import ActiveJob, Failure
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Raised
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.store import Store
from holdfast._system.host import identify

OURS = "holdfast"
FAILED, CLAIM = 50, 1_000
REPEATS = 10
BEATS = frozenset(("holdfast.leases", "holdfast.beats"))
SETTLED = 8.0  # seconds after which a started worker is idle: its first audit comes with its first beat


async def failed_attempts(site: Site, book: Book) -> None:
    """Measure one exchange of 50 attempts that raised."""
    bare = await BareStore.at(site)
    await bare.fill(FAILED * REPEATS)
    store, lease = bare.queue.store, await open_lease(bare.queue.store, 0)
    failure, waits = Failure("ValueError", "no", "Traceback: 40 lines\n" * 40), list[float]()
    for _ in range(REPEATS):
        jobs = await _claim(store, lease, FAILED)
        moves = [finish(job, Raised(failure), jitter=0.0) for job in jobs]
        began = time.perf_counter()
        await store.exchange(moves)
        waits.append((time.perf_counter() - began) * 1000)
    book.add(OURS, {"50 failed": statistics.median(waits)})
    await bare.close()


async def beat(site: Site, book: Book, running: int) -> None:
    """Measure a beat of a lease with many running jobs: its time, and the documents it writes."""
    bare = await BareStore.at(site)
    await bare.fill(running)
    store, lease = bare.queue.store, await open_lease(bare.queue.store, running)
    await claim_all(store, lease, running)
    waits, since = list[float](), site.now()
    for _ in range(REPEATS):
        began = time.perf_counter()
        await store.beat([lease])
        waits.append((time.perf_counter() - began) * 1000)
    written = sum(site.writes(bare.place, since).values()) / REPEATS
    book.add(OURS, {"beat": statistics.median(waits), "beat writes": written})
    await bare.close()


async def orphans(site: Site, book: Book, count: int) -> None:
    """Measure one pass of recovery over the jobs of a worker that is dead, until all of them wait again."""
    bare = await BareStore.at(site)
    await bare.fill(count)
    words = [sys.executable, "-m", "bench.mongo.dying", bare.place.url, str(count)]
    dying = await asyncio.create_subprocess_exec(*words, cwd=ROOT)
    await dying.wait()
    app = App(bare.place.url)
    began = time.perf_counter()
    rescued = await app.recovery.arun_once(True)
    book.add(OURS, {"orphans": time.perf_counter() - began})
    await app.aclose()
    await bare.close()
    if len(rescued) != count:
        raise RuntimeError(f"{len(rescued)} of {count} jobs were rescued")


async def idle(site: Site, book: Book, seconds: float) -> None:
    """Count what an idle worker writes beside its beats."""
    ours = await HoldfastOnMongo.at(site)
    async with figures.running(ours):
        await figures.until(lambda: ours.is_up() and ours.is_drained())
        await asyncio.sleep(SETTLED)
        since = site.now()
        await asyncio.sleep(seconds)
        written = site.writes(ours.place, since)
    others = {name: number for name, number in written.items() if name not in BEATS}
    book.add(OURS, {"idle writes": sum(others.values()), "idle beats": sum(written.values()) - sum(others.values())})
    for name, number in others.items():
        book.add(name, {"idle writes": number})
    await ours.close()
    site.clear(ours.place)


async def claim_all(store: Store, lease: UUID, count: int) -> None:
    """Claim as many jobs, which run from then on."""
    while count > 0:
        count -= len(await _claim(store, lease, min(CLAIM, count)))


async def _claim(store: Store, lease: UUID, limit: int) -> list[ActiveJob]:
    request = ClaimRequest(lease=lease, claim=uuid4(), tasks={TASK: POLICY}, limit=limit)
    claims = (await store.exchange((), request)).claims
    if not claims:
        raise RuntimeError("there is no job to claim")
    return [claim.job for claim in claims]


async def open_lease(store: Store, slots: int, pid: int = 1) -> UUID:
    """Open a lease of a process of this machine."""
    lease = NewLease(uuid4(), "bench", identify(pid), LeaseTiming.of("5m"), slots=slots)
    await store.open_lease(lease)
    return lease.id
