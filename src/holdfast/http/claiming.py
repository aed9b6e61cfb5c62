"""The call by which workers of any language get jobs. Each job has a separate lease, so its heartbeats concern it alone."""

import asyncio
from typing import Annotated, Final, Protocol
from uuid import UUID, uuid5

from msgspec import Meta, Raw, Struct

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, IsolatedJobs, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import store_defaults
from holdfast._engine.environment import Environment
from holdfast.http.claim_token import ClaimToken
from holdfast.http.identity import Role
from holdfast.http.operation import Call, Operation, Reply

CLAIM: Final = "/jobs/claim"
MOST_JOBS: Final = 100
LONGEST_WAIT: Final = 30.0
LOOKED_AT: Final = 4
"""Due jobs that are tried for each job of a claim: some may be taken by other brokers, or need results of other jobs."""
MOST_KINDS: Final = 1000
BEATS: Final = 3
"""Heartbeats that a worker should send within the time after which it loses a job."""
CLAIMS: Final = UUID("0c1b8f1e-3b0a-4f57-8d6a-52c4a8f6d7b3")

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.:-]+\Z")]
Names = Annotated[list[Name], Meta(min_length=1, max_length=100)]


class Claiming(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for at most ``limit`` jobs of these tasks. ``wait``: seconds to wait for the first.

    ``claim``: a fresh UUID of the sender. If the answer is lost, the same request with the same UUID gets the same jobs.
    """

    worker: Name
    tasks: Names
    queues: Names | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_JOBS)] = 1
    wait: Annotated[float, Meta(ge=0.0, le=LONGEST_WAIT)] = 0.0
    claim: UUID | None = None


class Claimed(Struct, frozen=True, kw_only=True):
    """A job to run. ``token``: for every call about it. ``beat_within``: seconds between two heartbeats, at most."""

    id: UUID
    task: str
    queue: str
    payload: Raw
    attempt: int
    token: str
    checkpoint: Raw | None
    beat_within: float


class Hints(Protocol):
    """Hints that jobs may be due."""

    @property
    def count(self) -> int:
        """The number of hints so far."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Return with the next hint, or after this time: ``False`` if the server stops."""
        ...


Kind = tuple[tuple[str, ...], tuple[str, ...] | None]


class Claims:
    """Hands out jobs in the order of the store. ``poll``: the seconds after which it looks again without a hint."""

    def __init__(
        self, environment: Environment, timing: LeaseTiming, process: ProcessIdentity, *, poll: float, hints: Hints
    ) -> None:
        self._store, self._chance, self._now = environment.store, environment.chance, environment.clock.monotonic
        self._timing, self._process, self._poll, self._hints = timing, process, poll, hints
        self._turn = asyncio.Lock()
        self._tried = set[UUID]()
        self._found_none: dict[Kind, tuple[int, float]] = {}

    def operation(self) -> Operation:
        """Describe the call that claims."""
        return Operation(
            method="POST",
            path=CLAIM,
            summary="Claim jobs to run; 204 if there is none.",
            roles=frozenset((Role.WORKER,)),
            body=Claiming,
            answers={200: list[Claimed], 204: None},
            run=self._run,
        )

    async def _run(self, call: Call) -> Reply:
        asked: Claiming = call.body
        sender = uuid5(CLAIMS, call.identity.name)
        claim = uuid5(sender, str(asked.claim or self._chance.uuid4()))
        found = [] if asked.claim is None else await self._claimed_before(asked, claim)
        until = self._now() + asked.wait
        # A sender that has gone would get jobs that no worker runs.
        while not found and not await call.is_gone():
            found = await self._claim(asked, claim)
            left = until - self._now()
            if found or left <= 0 or not await self._hints.wait(min(left, self._poll)):
                break
        return Reply(found) if found else Reply(None, 204)

    async def _claimed_before(self, asked: Claiming, claim: UUID) -> list[Claimed]:
        """Return the jobs of an earlier copy of the request, whose answer was lost."""
        leases = [_lease_of(claim, position) for position in range(asked.limit)]
        held = await asyncio.gather(*(self._store.held(lease, 1) for lease in leases))
        known = [(lease, active) for lease, some in zip(leases, held, strict=True) for active in some]
        records = await asyncio.gather(*(self._store.get(active.id) for _, active in known))
        return [
            self._answer(record, lease, active, record.payload, record.checkpoint)
            for record, (lease, active) in zip(records, known, strict=True)
            if record is not None
        ]

    async def _claim(self, asked: Claiming, claim: UUID) -> list[Claimed]:
        """Claim at once as many jobs as are asked for, so that a store that writes once for all its callers does so here."""
        found, free, seen, opened = list[Claimed](), list[UUID](), set[UUID](), 0
        while len(found) < asked.limit and (jobs := await self._choose(asked, asked.limit - len(found), seen)):
            try:
                wanted = [_lease_of(claim, position) for position in range(opened, opened + len(jobs) - len(free))]
                free += await asyncio.gather(*(self._open(asked, lease) for lease in wanted))
                pairs = list(zip(jobs, free, strict=False))
                taken = await asyncio.gather(*(self._take(asked, job, lease, uuid5(claim, str(job))) for job, lease in pairs))
            finally:
                self._tried.difference_update(jobs)
            opened += len(wanted)
            found += [job for some in taken for job in some]
            free = [lease for (_, lease), some in zip(pairs, taken, strict=True) if not some] + free[len(pairs) :]
        end = LeaseEnd(RescueReason.CLOSED, is_free=True)
        await asyncio.gather(*(self._store.end_lease(lease, end) for lease in free))
        return found

    async def _choose(self, asked: Claiming, most: int, seen: set[UUID]) -> list[UUID]:
        """Return due jobs that no other request is claiming, and add them to ``seen``: those that this one has tried.

        Requests look one after the other, and only once for all that wait for the same.
        """
        queues = _queues(asked)
        kind: Kind = tuple(asked.tasks), queues
        if len(seen) >= LOOKED_AT * asked.limit:
            return []
        async with self._turn:
            count, looked = self._hints.count, self._now()
            known = self._found_none.get(kind)
            if asked.wait > 0 and known is not None and known[0] == count and looked - known[1] < self._poll / 2:
                return []
            limit = most + len(seen) + len(self._tried)
            due = await store_defaults.due(self._store, asked.tasks, limit, queues=queues, isolated=IsolatedJobs.INCLUDE)
            jobs = [each.job for each in due if each.job not in seen and each.job not in self._tried][:most]
            self._tried.update(jobs)
        seen.update(jobs)
        if jobs:
            self._found_none.pop(kind, None)
        else:
            if len(self._found_none) >= MOST_KINDS:
                self._found_none.clear()
            self._found_none[kind] = count, looked
        return jobs

    async def _take(self, asked: Claiming, job: UUID, lease: UUID, claim: UUID) -> list[Claimed]:
        """Claim one job, if no other worker has taken it in the meantime.

        It keeps the policy with which it was enqueued: a worker over HTTP has no other.
        """
        record = await self._store.get(job)
        if record is None or _needs_results(record):
            return []
        tasks, ids = {record.task: record.policy}, (record.id,)
        request = ClaimRequest(
            lease=lease, claim=claim, tasks=tasks, limit=1, queues=_queues(asked), isolated=IsolatedJobs.INCLUDE, ids=ids
        )
        claims = (await self._store.exchange((), request)).claims
        return [self._answer(record, lease, each.job, each.payload, each.checkpoint) for each in claims]

    async def _open(self, asked: Claiming, wanted: UUID) -> UUID:
        """Open the lease of one job. A copy of a request that found nothing gets another lease: its own has ended."""
        queues, tasks = tuple(asked.queues or ()), tuple(asked.tasks)
        for lease in (wanted, self._chance.uuid4()):
            if await self._store.open_lease(NewLease(lease, asked.worker, self._process, self._timing, queues, tasks, 0.0, 1)):
                break
        return lease

    def _answer(self, record: JobRecord, lease: UUID, active: ActiveJob, payload: bytes, checkpoint: bytes | None) -> Claimed:
        return Claimed(
            id=record.id,
            task=record.task,
            queue=record.queue,
            payload=Raw(payload),
            attempt=active.attempt,
            token=ClaimToken.of_job(active, lease).text,
            checkpoint=None if checkpoint is None else Raw(checkpoint),
            beat_within=(self._timing.ttl - self._timing.margin) / BEATS,
        )


def _lease_of(claim: UUID, position: int) -> UUID:
    return uuid5(claim, f"lease {position}")


def _queues(asked: Claiming) -> tuple[str, ...] | None:
    return None if asked.queues is None else tuple(asked.queues)


def _needs_results(record: JobRecord) -> bool:
    """Return whether the payload lacks results of other jobs, which only the task's code can read."""
    return record.member is not None and bool(record.member.inputs)
