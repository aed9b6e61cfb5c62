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
"""Due jobs that are looked at for each job of a claim: some may be taken by other brokers, or need results of other jobs."""
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
            async with self._turn:  # all would try to claim the same job
                found = await self._claim_unless_known(asked, claim)
            left = until - self._now()
            if found or left <= 0 or not await self._hints.wait(min(left, self._poll)):
                break
        return Reply(found) if found else Reply(None, 204)

    async def _claimed_before(self, asked: Claiming, claim: UUID) -> list[Claimed]:
        """Return the jobs of an earlier copy of the request, whose answer was lost."""
        found: list[Claimed] = []
        for position in range(asked.limit):
            lease = _lease_of(claim, position)
            for active in await self._store.held(lease, 1):
                record = await self._store.get(active.id)
                if record is not None:
                    found.append(self._answer(record, lease, active, record.payload, record.checkpoint))
            if len(found) <= position:
                break
        return found

    async def _claim_unless_known(self, asked: Claiming, claim: UUID) -> list[Claimed]:
        """Claim, unless another request for the same has found none since the last hint: a thousand waiting ones look once."""
        kind: Kind = tuple(asked.tasks), None if asked.queues is None else tuple(asked.queues)
        count, looked = self._hints.count, self._now()
        known = self._found_none.get(kind)
        if asked.wait > 0 and known is not None and known[0] == count and looked - known[1] < self._poll / 2:
            return []
        found = await self._claim(asked, claim)
        if found:
            self._found_none.pop(kind, None)
        else:
            if len(self._found_none) >= MOST_KINDS:
                self._found_none.clear()
            self._found_none[kind] = count, looked
        return found

    async def _claim(self, asked: Claiming, claim: UUID) -> list[Claimed]:
        queues, found = None if asked.queues is None else tuple(asked.queues), list[Claimed]()
        most = LOOKED_AT * asked.limit
        due = await store_defaults.due(self._store, asked.tasks, most, queues=queues, isolated=IsolatedJobs.INCLUDE)
        unused: UUID | None = None
        for each in due:
            record = await self._store.get(each.job)
            if record is None or _needs_results(record):
                continue
            lease = unused or await self._open(asked, _lease_of(claim, len(found)))
            taken = await self._take(record, lease, uuid5(claim, f"{len(found)} {each.job}"), queues)
            found += taken
            unused = None if taken else lease
            if len(found) == asked.limit:
                break
        if unused is not None:
            await self._store.end_lease(unused, LeaseEnd(RescueReason.CLOSED, is_free=True))
        return found

    async def _take(self, record: JobRecord, lease: UUID, claim: UUID, queues: tuple[str, ...] | None) -> list[Claimed]:
        """Claim one job, if no other worker has taken it in the meantime.

        It keeps the policy with which it was enqueued: a worker over HTTP has no other.
        """
        tasks, ids = {record.task: record.policy}, (record.id,)
        request = ClaimRequest(
            lease=lease, claim=claim, tasks=tasks, limit=1, queues=queues, isolated=IsolatedJobs.INCLUDE, ids=ids
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


def _needs_results(record: JobRecord) -> bool:
    """Return whether the payload lacks results of other jobs, which only the task's code can read."""
    return record.member is not None and bool(record.member.inputs)
