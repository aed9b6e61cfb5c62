"""What the bench asks of a queue, and Holdfast's answer to it, on any store."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID, uuid4

import msgspec

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._ports.store import Store

TASK, POLICY = "noop", Policy()
PROCESS = ProcessIdentity("bench", 1)


class Worker(Protocol):
    """One worker of a queue."""

    async def exchange(self) -> list[int]:
        """Complete what was claimed before, claim more, and return the numbers of the jobs claimed now."""
        ...


class Queue(Protocol):
    """One process's door to a queue."""

    async def enqueue(self, number: int) -> None:
        """Store one job durably."""
        ...

    async def worker(self, concurrency: int) -> Worker:
        """Return a worker that runs at most this number of jobs at once."""
        ...

    async def close(self) -> None:
        """Close its connections, or end its loop."""
        ...


class HoldfastQueue:
    """A store of Holdfast, below its front door, which differs only in what it does before the call."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def enqueue(self, number: int) -> None:
        call, job = self.job(number)
        await self.store.enqueue(call, [job])

    def job(self, number: int) -> tuple[UUID, NewJob]:
        """Return the id of a call and its job."""
        return uuid4(), NewJob(id=uuid4(), payload=b'{"n": %d}' % number, task=TASK, policy=POLICY)

    async def worker(self, concurrency: int) -> HoldfastWorker:
        lease = NewLease(uuid4(), "bench", PROCESS, LeaseTiming.of(), slots=concurrency)
        await self.store.open_lease(lease)
        return HoldfastWorker(self.store, lease, concurrency)

    async def close(self) -> None:
        await self.store.close()


class HoldfastWorker:
    """A lease that settles and claims in one call, as a worker of Holdfast does."""

    def __init__(self, store: Store, lease: NewLease, concurrency: int) -> None:
        self._store, self._lease, self._concurrency = store, lease, concurrency
        self._held: tuple[ActiveJob, ...] = ()

    async def exchange(self) -> list[int]:
        request = ClaimRequest(lease=self._lease.id, claim=uuid4(), tasks={TASK: POLICY}, limit=self._concurrency)
        done = [finish(job, Done(), jitter=0.0) for job in self._held]
        claims = (await self._store.exchange(done, request)).claims
        self._held = tuple(claim.job for claim in claims)
        return [int(msgspec.json.decode(claim.payload)["n"]) for claim in claims]

    async def beat(self) -> None:
        """Renew the lease; the time it takes beside other writers is a figure."""
        await self._store.beat([self._lease.id])
