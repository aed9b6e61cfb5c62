"""What a test of a store needs: a clock it can move; jobs, leases and claims in few words."""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import wraps
from threading import Barrier
from typing import Any, Protocol, TypeVar
from uuid import UUID

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer
from holdfast._core.headers import Headers
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, Claim, Failure, NewJob, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import LeaseEnd, Transition, finish, release, rescue
from holdfast._core.outcome import Done, Outcome, Raised
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimKind, ClaimRequest, IsolatedJobs, JobFilter, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._engine import store_defaults
from holdfast._ports.store import Store
from holdfast.testing.clock import FakeChance, FakeClock

Result = TypeVar("Result")

TTL = 30.0
EARLY = 0.001  # less than any duration in a test, more than any store rounds to
PROCESS = ProcessIdentity("web-1", 42, 7, "boot", "pid:[1]", "time:[1]")
BOOM = Failure("ValueError", "boom", "Traceback …", key="0123456789abcdef")


class Contract(Protocol):
    """What a class of contract tests gives its scenes."""

    def make_store(self, clock: FakeClock) -> Store: ...

    def advance(self, clock: FakeClock, seconds: float) -> None: ...

    def step_wall(self, clock: FakeClock, seconds: float) -> None: ...

    def run(self, story: Coroutine[Any, Any, None]) -> None: ...


class Scene:
    """One test's world. Every store it makes is another handle on the same jobs."""

    everything = JobFilter(limit=10_000)

    def __init__(self, contract: Contract, closing: AsyncExitStack) -> None:
        self.clock, self.chance = FakeClock(), FakeChance()
        self._contract, self._closing = contract, closing
        self.store = self.another()

    def another(self) -> Store:
        """Make one more store object on the same jobs."""
        store = self._contract.make_store(self.clock)
        self._closing.push_async_callback(store.close)
        return store

    def advance(self, seconds: float) -> None:
        """Let time pass for the store."""
        self._contract.advance(self.clock, seconds)

    def step_wall(self, seconds: float) -> None:
        """Set the clock by which the store knows when jobs are due, and when they may be deleted."""
        self._contract.step_wall(self.clock, seconds)

    @property
    def now(self) -> datetime:
        """Read the wall clock."""
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    def new(
        self,
        *,
        task: str = "task",
        queue: str = "default",
        priority: int = 0,
        delay: float = 0.0,
        run_at: datetime | None = None,
        payload: bytes = b"{}",
        policy: Policy | None = None,
        expires_in: float | None = None,
        key: str | None = None,
        lane: str = "",
        tags: tuple[str, ...] = (),
        headers: Headers = (),
    ) -> NewJob:
        """Make a job to be enqueued; ``key`` is its unique key, ``lane`` its key."""
        return NewJob(
            id=self.chance.uuid7(),
            task=task,
            queue=queue,
            key=lane,
            priority=priority,
            delay=delay,
            run_at=run_at,
            payload=payload,
            policy=policy or Policy(),
            expires_in=expires_in,
            unique_key=key,
            tags=tags,
            headers=headers,
        )

    async def enqueue(self, *jobs: NewJob) -> tuple[UUID, ...]:
        """Enqueue jobs, and return their ids once they are durable."""
        assert await self.send(*jobs) == EnqueueAnswer()
        return tuple(job.id for job in jobs)

    async def send(self, *jobs: NewJob, under: ActiveJob | None = None) -> EnqueueAnswer:
        """Enqueue jobs in one call, and return its answer."""
        return await self.store.enqueue(self.chance.uuid4(), jobs, under=None if under is None else (under.id, under.token))

    def new_lease(self, *, ttl: float = TTL, worker: str = "worker", process: ProcessIdentity = PROCESS) -> NewLease:
        """Make a lease to be opened."""
        return NewLease(self.chance.uuid4(), worker, process, LeaseTiming.of(ttl), ("default",), ("task",))

    async def lease(self, *, ttl: float = TTL, worker: str = "worker") -> UUID:
        """Open a lease, and return its id."""
        lease = self.new_lease(ttl=ttl, worker=worker)
        assert await self.store.open_lease(lease)
        return lease.id

    def request(
        self,
        lease: UUID,
        limit: int = 1,
        *,
        prefetch: int = 0,
        tasks: Sequence[str] = ("task",),
        queues: tuple[str, ...] | None = None,
        policy: Policy | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        ids: Sequence[UUID] | None = None,
        cursor: Cursor = (),
        kind: ClaimKind = ClaimKind.PLAIN,
    ) -> ClaimRequest:
        """Make a claim to be sent, under a new claim id."""
        return ClaimRequest(
            lease=lease,
            claim=self.chance.uuid4(),
            tasks=dict.fromkeys(tasks, policy or Policy()),
            limit=limit,
            prefetch=prefetch,
            queues=queues,
            isolated=isolated,
            ids=None if ids is None else tuple(ids),
            cursor=cursor,
            kind=kind,
        )

    async def claim(
        self,
        lease: UUID,
        limit: int = 1,
        *,
        prefetch: int = 0,
        tasks: Sequence[str] = ("task",),
        queues: tuple[str, ...] | None = None,
        policy: Policy | None = None,
        isolated: IsolatedJobs = IsolatedJobs.EXCLUDE,
        ids: Sequence[UUID] | None = None,
    ) -> tuple[Claim, ...]:
        """Claim, and return the jobs that the store hands out; ask again where it has lanes left to look at."""
        wish = {"prefetch": prefetch, "tasks": tasks, "queues": queues, "policy": policy, "isolated": isolated, "ids": ids}
        answer = await self.store.exchange((), self.request(lease, limit, **wish))  # type: ignore[arg-type]
        while not answer.is_whole and not answer.claims:
            request = self.request(lease, limit, cursor=answer.cursor, **wish)  # type: ignore[arg-type]
            answer = await self.store.exchange((), request)
        return answer.claims

    async def running(self, *, policy: Policy | None = None, key: str | None = None, payload: bytes = b"{}") -> ActiveJob:
        """Start a new job, in a separate queue, under a new lease."""
        job = self.new(queue=str(self.chance.uuid4()), key=key, payload=payload)
        await self.enqueue(job)
        (claim,) = await self.claim(await self.lease(), queues=(job.queue,), policy=policy)
        return claim.job

    async def prefetched(self) -> ActiveJob:
        """Claim a new job, in a separate queue, without starting it."""
        job = self.new(queue=str(self.chance.uuid4()))
        await self.enqueue(job)
        (claim,) = await self.claim(await self.lease(), 0, prefetch=1, queues=(job.queue,))
        return claim.job

    async def settle(self, *transitions: Transition) -> tuple[Answer, ...]:
        """Settle, and return the answers."""
        return (await self.store.exchange(transitions)).answers

    async def exchange(self, transition: Transition, request: ClaimRequest) -> ExchangeAnswer:
        """Settle and claim in one write."""
        return await self.store.exchange([transition], request)

    async def row(self, job: UUID) -> JobRecord:
        """Read the job in full."""
        record = await self.store.get(job)
        assert record is not None
        return record

    async def state(self, job: UUID) -> State:
        """Read the state of the job."""
        return (await self.row(job)).state


async def insist(store: Store, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
    """Ask again, as the engine does, for what another session has locked just now."""
    found = await store.exchange(transitions, request)
    answers = list(found.answers)
    while busy := [place for place, answer in enumerate(answers) if answer is Answer.BUSY]:
        again = await store.exchange([transitions[place] for place in busy])
        for place, answer in zip(busy, again.answers, strict=True):
            answers[place] = answer
    return ExchangeAnswer(tuple(answers), found.claims)


def done(job: ActiveJob, result: bytes = b"null") -> Transition:
    """Make the transition of a handler that returned."""
    return answered(job, Done(result))


def raised(job: ActiveJob, failure: Failure = BOOM) -> Transition:
    """Make the transition of a handler that raised."""
    return answered(job, Raised(failure))


def answered(job: ActiveJob, outcome: Outcome) -> Transition:
    """Make the transition of a handler with this outcome."""
    return finish(job, outcome, jitter=0.0)


def rescued(job: ActiveJob, why: LeaseEnd, by: str | None = None) -> Transition:
    """Make the transition by which a supervisor takes a job from an owner whose lease has ended."""
    return rescue(job, why, jitter=0.0, by=by)


def released(job: ActiveJob, *, code_ran: bool = False) -> Transition:
    """Make the transition by which the owner releases a job."""
    return release(job, code_ran=code_ran)


def stale(token: Token, number: int = 1000) -> Token:
    """Make a token that was never handed out."""
    return Token(token.claim, token.number + number)


def in_threads(*acts: Callable[[], Awaitable[Result]]) -> tuple[Result, ...]:
    """Run each in a separate thread and loop, all at once, with threads that switch as often as they can."""
    line = Barrier(len(acts))

    async def run(act: Callable[[], Awaitable[Result]]) -> Result:
        line.wait()
        return await act()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(acts)) as threads:
            return tuple(threads.map(lambda act: asyncio.run(run(act)), acts))
    finally:
        sys.setswitchinterval(interval)


Self = TypeVar("Self", bound=Contract)


def play(contract: Contract, act: Callable[[Scene], Awaitable[None]]) -> None:
    """Run a coroutine in a scene."""

    async def run() -> None:
        async with AsyncExitStack() as closing:
            await act(Scene(contract, closing))

    contract.run(run())


def story(act: Callable[[Self, Scene], Awaitable[None]]) -> Callable[[Self], None]:
    """Turn a coroutine in a scene into a test that a runner can call."""

    def test(self: Self) -> None:
        play(self, lambda at: act(self, at))

    test.__name__, test.__doc__ = act.__name__, act.__doc__
    return test


def needs(
    protocol: type[Any], instead: Callable[[Scene], Awaitable[None]]
) -> Callable[[Callable[[Self, Scene], Awaitable[None]]], Callable[[Self, Scene], Awaitable[None]]]:
    """Run the test if the store has this optional protocol; else check what stands in for it."""

    def decorate(act: Callable[[Self, Scene], Awaitable[None]]) -> Callable[[Self, Scene], Awaitable[None]]:
        @wraps(act)
        async def test(self: Self, at: Scene) -> None:
            await (act(self, at) if store_defaults.offers(at.store, protocol) else instead(at))

        return test

    return decorate


async def nothing_due(at: Scene) -> None:
    """Check that a store without the verb names no jobs to publish again."""
    await at.enqueue(at.new())
    assert await store_defaults.due(at.store, ["task"], 10) == ()


class Part(ABC):
    """Base of the parts: what a subclass must define."""

    @abstractmethod
    def make_store(self, clock: FakeClock) -> Store:
        """Make a store that reads this clock; each call of one test gives another handle on the same jobs."""

    def advance(self, clock: FakeClock, seconds: float) -> None:
        """Let time pass; override it for a store whose clock is its server's."""
        clock.advance(seconds)

    def step_wall(self, clock: FakeClock, seconds: float) -> None:
        """Set the clock for due times and retention, negative: back; override it for a store whose clock is its server's."""
        clock.step_wall(seconds)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Run a test's coroutine in an event loop. Override it for stores that share a loop's expensive objects, such as connections."""
        asyncio.run(story)
