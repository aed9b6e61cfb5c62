"""How long claims take beside a retry of many jobs."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from uuid import UUID

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Claim
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.store import Store
from holdfast._system.clock import SystemRandomness
from holdfast.opening import open_store
from holdfast.settings import Settings

ROOM = 10
SECONDS = 10.0
_CHANCE = SystemRandomness()


async def measure_retry(url: str) -> None:
    """Claim and settle jobs of the queue ``default`` before and during a retry of all failed jobs, and print how long claims took."""
    store = open_store(Settings.of(url))
    lease = _CHANCE.uuid4()
    process = ProcessIdentity("bench", 1)
    await store.open_lease(NewLease(lease, "bench", process, LeaseTiming.of(300.0), (), ("nothing",)))
    until = time.monotonic() + SECONDS
    before = await _claims(store, lease, lambda: time.monotonic() < until)
    words = ["jobs", "retry", "--state", "failed", "--task", "broken", "--yes", "--url", url]
    began = time.monotonic()
    retry = await asyncio.create_subprocess_exec(sys.executable, "-m", "holdfast.cli", *words, stdout=asyncio.subprocess.DEVNULL)
    during = await _claims(store, lease, lambda: retry.returncode is None)
    took = time.monotonic() - began
    await store.close()
    print(f"retry of all failed jobs: {took:.1f} s, exit code {await retry.wait()}")
    for name, waits in (("before", before), ("during", during)):
        print(f"claims {name}: {len(waits):,}, p50 {statistics.median(waits) * 1000:.1f} ms, p99 {_p99(waits) * 1000:.1f} ms")
    print(f"claims' p99 during / before: {_p99(during) / _p99(before):.2f}")


async def _claims(store: Store, lease: UUID, goes_on: Callable[[], bool]) -> list[float]:
    waits, held = list[float](), tuple[Claim, ...]()
    while goes_on():
        began = time.perf_counter()
        request = ClaimRequest(lease=lease, claim=_CHANCE.uuid4(), tasks={"nothing": Policy()}, limit=ROOM)
        answer = await store.exchange([finish(claim.job, Done(b"null"), jitter=0.0) for claim in held], request)
        waits.append(time.perf_counter() - began)
        held = answer.claims
        if not held:
            raise RuntimeError("no jobs are left to claim: enqueue more")
        await asyncio.sleep(0.002)  # a worker's own work
    await store.exchange([finish(claim.job, Done(b"null"), jitter=0.0) for claim in held], None)
    return waits


def _p99(waits: list[float]) -> float:
    return sorted(waits)[int(0.99 * len(waits))]
