"""A store and the memory store return the same answers to any calls in any order at any time: here SQLite."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from holdfast._core.answers import ExchangeAnswer, LeaseView
from holdfast._core.job import ActiveJob, Claim, Failure, NewJob, Reason, RescueReason, State, Token
from holdfast._core.lanes import Cursor
from holdfast._core.lifecycle import (
    LeaseEnd,
    Transition,
    cancelled,
    deadline_exceeded,
    deadline_exceeded_elsewhere,
    finish,
    release,
    rescue,
    voided,
)
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.origin import Origin
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Raised, Retry, Snooze, StepsChanged, Suspend
from holdfast._core.points import Track, points_text
from holdfast._core.policy import Backoff, ChangePolicy, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import (
    AttemptNote,
    BeatNote,
    ClaimKind,
    ClaimRequest,
    IsolatedJobs,
    JobFilter,
    NewLease,
    ProgressUpdate,
    QueueSettings,
)
from holdfast._core.timing import LeaseTiming
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from holdfast._engine import store_defaults
from holdfast._engine.store_defaults import lanes, prefetching, worker_history
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.contract.model_schedules import ScheduleRules
from tests.contract.model_steps import StepRules
from tests.contract.model_workflows import WorkflowRules

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "12"))
TASKS, QUEUES = ("a", "b"), ("x", "y")
BACKOFF = Backoff.fixed("1s", "30s")
POLICIES = [
    Policy(max_crashes=2, backoff=BACKOFF, retention=0.0, progress_within=3.0, timeout=20.0),
    Policy(max_crashes=2, backoff=BACKOFF, on_crash=CrashPolicy.FAIL, retention=60.0, timeout=5.0, has_rescue_hook=True),
    Policy(max_crashes=2, backoff=BACKOFF, on_crash=CrashPolicy.HOLD, retention=2000.0, has_rescue_hook=True),
]
OUTCOMES = [
    Done(b"1"),
    Done(b"2"),
    Raised(Failure("E", "boom", "…")),
    Raised(Failure("E", "boom"), is_final=True),
    Retry(after="3s", reason="busy"),
    Snooze(for_="1s"),
    Cancel("no need"),
    Fail("no way"),
    Invalid(Reason.RESULT_INVALID, Failure("E", "not JSON")),
    Suspend(5.0, "go"),
    Suspend(40.0, "go"),
    StepsChanged(Failure("StepsChanged", "asks for 'b'")),
    StepsChanged(Failure("StepsChanged", "asks for 'b'"), ChangePolicy.RESTART),
]
ENDS = [
    LeaseEnd(RescueReason.CRASHED, "SIGKILL"),
    LeaseEnd(RescueReason.CLOSED, is_free=True),
    LeaseEnd(RescueReason.EXPIRED, stacks="…"),
]
OVERRUNS = (RescueReason.STALLED, RescueReason.TIMED_OUT)
ALL_OR_NONE = st.sampled_from([0, 100, 100, 100])  # a limit in between would let each store choose other jobs

indexes = st.integers(0, 10**6)
some = st.lists(indexes, min_size=1, max_size=4)
counts = st.integers(0, 3)
tasks = st.lists(st.sampled_from([*TASKS, "none"]), max_size=3, unique=True)
queues = st.none() | st.lists(st.sampled_from([*QUEUES, "none"]), max_size=2, unique=True).map(tuple)
TINY = 0.0000014  # seconds: most stores round it
new_jobs = st.builds(
    dict,
    task=st.sampled_from(TASKS),
    queue=st.sampled_from(QUEUES),
    key=st.sampled_from(["", "", "acme"]),
    headers=st.sampled_from([(), (), (("tenant", "acme"),)]),
    priority=st.integers(-1, 1),
    delay=st.sampled_from([0.0, 0.0, TINY, 1.0, 40.0]),
    payload=st.sampled_from([b"", b"{}", b"{}", b"{}", b"x" * 600]),
    expires_in=st.sampled_from([None, None, 1.0, 10.0]),
    unique_key=st.sampled_from([None, "k", "k", "l"]),
    uniqueness=st.sampled_from([UNTIL_FINISHED, UNTIL_FINISHED, Uniqueness(seconds=5.0), Uniqueness(until_started=True)]),
    policy=st.sampled_from(POLICIES),
    tags=st.sampled_from([(), ("t",), ("t", "u")]),
)
strings = st.sampled_from([None, "", "clone"])
scopes = st.sampled_from(
    [Scope(ScopeKind.ALL), *(Scope(ScopeKind.TASK, task) for task in TASKS), *(Scope(ScopeKind.QUEUE, queue) for queue in QUEUES)]
)
limits = st.builds(
    Limit,
    concurrency=st.none() | st.integers(0, 3),
    per_key=st.none() | st.integers(1, 2),
    rate=st.sampled_from([None, None, "1/s", "3/2s"]),
    rate_per_key=st.sampled_from([None, None, "1/s"]),
    burst=st.integers(1, 3),
)
queue_settings = st.builds(
    QueueSettings,
    priority=st.integers(-2, 1),
    weight=st.integers(1, 3),
    key_weights=st.sampled_from([{}, {"acme": 2}, {"": 2, "none": 9}]),
)

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Model(ScheduleRules, StepRules, WorkflowRules, RuleBasedStateMachine):
    """A state machine of which every rule sends the same call to both stores."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.chance = FakeClock(), FakeChance()
        self.store_clock = self.clock
        self.runner, self.store = self.make_store()
        self.oracle = self.make_oracle()
        self.calls: list[tuple[UUID, list[NewJob]]] = []
        self.leases: list[NewLease] = []
        self.active_jobs: list[ActiveJob] = []
        self.sent: list[Transition] = []
        self.cursor: Cursor = ()
        self.cursor_within_limits: Cursor = ()
        self.seen_values: dict[UUID, list[tuple[str, ...]]] = {}  # of each lease, in the oracle and in the store under test

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        """Return the store under test, which is empty and reads ``store_clock``, and the runner of its event loop."""
        raise NotImplementedError

    def make_oracle(self) -> Store:
        """Return the store whose answers are right."""
        return MemoryStore(self.clock)

    def ask(self, call: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Send one call to both stores and check that they agree."""

        async def answer(store: Store) -> Answer | str:
            try:
                return await call(store)
            except StoreUnavailable:
                raise
            except HoldfastError as error:
                return type(error).__name__

        expected, found = self.runner.run(answer(self.oracle)), self.runner.run(answer(self.store))
        assert self.seen(found) == self.seen(expected)
        return expected  # type: ignore[return-value]

    def seen(self, answer: object) -> object:
        """Return an answer as it is compared."""
        return comparable(answer)

    def pick(self, items: Sequence[Item], chosen: Sequence[int]) -> list[Item]:
        """Return some items, newer ones more often."""
        return [items[-1 - (index % len(items)) ** 2 % len(items)] for index in chosen]

    def token(self, active: ActiveJob, index: int) -> Token:
        """Return the token of the job, now and then a wrong one."""
        wrong = [Token(None, active.token.number), Token(active.token.claim, active.token.number + 1), self.active_jobs[0].token]
        return wrong[index % 3] if index % 10 == 9 else active.token

    def ids(self, chosen: Sequence[int]) -> list[UUID]:
        """Return ids of jobs, now and then an unknown one."""
        known = [job.id for _, jobs in self.calls for job in jobs]
        return [self.chance.uuid7() if index % 20 == 19 else known[index % len(known)] for index in chosen]

    @initialize(new=st.lists(new_jobs, min_size=4, max_size=6))
    def begin(self, new: list[dict[str, object]]) -> None:
        """Begin with running jobs, on which most rules depend."""
        self.open_lease(10.0, 0.0, is_isolated=False)
        self.enqueue([{**each, "delay": 0.0, "payload": b"{}"} for each in new])
        self.claim_all(0, IsolatedJobs.INCLUDE)

    @rule(new=st.lists(new_jobs, max_size=4))
    def enqueue(self, new: list[dict[str, object]]) -> None:
        jobs = [NewJob(id=self.chance.uuid7(), **each) for each in new]  # type: ignore[arg-type]
        self.calls.append((self.chance.uuid4(), jobs))
        self.ask(lambda store: store.enqueue(*self.calls[-1]))

    @precondition(lambda self: self.active_jobs)
    @rule(new=st.lists(new_jobs, max_size=2), index=indexes, wrong=indexes)
    def enqueue_children(self, new: list[dict[str, object]], index: int, wrong: int) -> None:
        jobs = [NewJob(id=self.chance.uuid7(), **each) for each in new]  # type: ignore[arg-type]
        self.calls.append((self.chance.uuid4(), jobs))
        (active,) = self.pick(self.active_jobs, [index])
        under = (active.id, self.token(active, wrong))
        self.ask(lambda store: store.enqueue(*self.calls[-1], under=under))

    @precondition(lambda self: self.calls)
    @rule(index=indexes, is_new_call=st.booleans())
    def enqueue_again(self, index: int, is_new_call: bool) -> None:
        call, jobs = self.calls[index % len(self.calls)]
        call = self.chance.uuid4() if is_new_call else call
        self.ask(lambda store: store.enqueue(call, jobs))

    @rule(ttl=st.sampled_from([10.0, 30.0]), grace=st.sampled_from([0.0, 7.0]), is_isolated=st.booleans())
    def open_lease(self, ttl: float, grace: float, is_isolated: bool) -> None:
        lease = NewLease(self.chance.uuid4(), f"w{len(self.leases)}", PROCESS, LeaseTiming.of(ttl), ("x",), TASKS)
        self.leases.append(structs.replace(lease, grace=grace, slots=5, is_isolated=is_isolated))
        self.ask(lambda store: store.open_lease(self.leases[-1]))

    @precondition(lambda self: self.leases)
    @rule(index=indexes)
    def open_again(self, index: int) -> None:
        self.ask(lambda store: store.open_lease(self.leases[index % len(self.leases)]))

    @precondition(lambda self: self.leases)
    @rule(chosen=some, draining=st.booleans(), is_unknown=st.booleans(), running=st.none() | counts)
    def beat(self, chosen: list[int], draining: bool, is_unknown: bool, running: int | None) -> None:
        leases = [lease.id for lease in self.pick(self.leases, chosen)] + [UUID(int=1)] * is_unknown
        notes = [
            BeatNote(lease=lease, kept=30.0, running=running, loop_lag=0.1, silence=1.0)
            for lease in leases
            if running is not None
        ]
        self.ask(lambda store: store.beat(leases, draining=draining and len(leases) == 1, notes=notes))

    @precondition(lambda self: self.leases)
    @rule(index=indexes, end=st.sampled_from(ENDS), judge=st.integers(0, 3))
    def end_lease(self, index: int, end: LeaseEnd, judge: int) -> None:
        (lease,) = self.pick(self.leases, [index])
        values = self.seen_values.get(lease.id, [("1:0", "1:0")])
        seen = (None, None) if judge == 0 else values[-1 - index % len(values)]
        self.ask(lambda store: store.end_lease(lease.id, end, seen=seen[store is self.store]))

    @precondition(lambda self: self.leases)
    @rule(index=indexes, limit=counts, prefetch=counts, tasks=tasks, queues=queues)
    def claim(self, index: int, limit: int, prefetch: int, tasks: list[str], queues: tuple[str, ...] | None) -> None:
        (lease,) = self.pick(self.leases, [index])
        self.exchange([], self.request(lease.id, limit, prefetch, tasks, queues))

    @precondition(lambda self: self.leases)
    @rule(index=indexes, isolated=st.sampled_from(IsolatedJobs))
    def claim_all(self, index: int, isolated: IsolatedJobs) -> None:
        (lease,) = self.pick(self.leases, [index])
        self.exchange([], structs.replace(self.request(lease.id, 3, 2, TASKS, None), isolated=isolated))

    @precondition(lambda self: self.leases and any(jobs for _, jobs in self.calls))
    @rule(
        index=indexes, chosen=st.lists(indexes, max_size=4), limit=counts, prefetch=counts, isolated=st.sampled_from(IsolatedJobs)
    )
    def claim_these(self, index: int, chosen: list[int], limit: int, prefetch: int, isolated: IsolatedJobs) -> None:
        (lease,) = self.pick(self.leases, [index])
        request = self.request(lease.id, limit, prefetch, TASKS[: 1 + index % 2], ("x",) if index % 3 == 0 else None)
        self.exchange([], structs.replace(request, isolated=isolated, ids=tuple(self.ids(chosen))))

    @precondition(lambda self: self.active_jobs)
    @rule(chosen=st.lists(st.tuples(indexes, st.integers(0, 23), indexes), min_size=1, max_size=4), asks=st.booleans())
    def settle(self, chosen: list[tuple[int, int, int]], asks: bool) -> None:
        moves = []
        for index, kind, wrong in chosen:
            (active,) = self.pick(self.active_jobs, [index])
            moves.append(structs.replace(self.move(active, kind), token=self.token(active, wrong)))
        self.sent += moves
        self.exchange(moves, self.request(active.lease, 2, 1, TASKS, None) if asks else None)

    @precondition(lambda self: self.sent)
    @rule(chosen=some, is_doubled=st.booleans())
    def settle_again(self, chosen: list[int], is_doubled: bool) -> None:
        moves = self.pick(self.sent, chosen)
        self.exchange(moves * (1 + is_doubled), None)

    @precondition(lambda self: self.active_jobs)
    @rule(chosen=some, wrong=indexes)
    def start(self, chosen: list[int], wrong: int) -> None:
        jobs = self.pick(self.active_jobs, chosen)
        self.ask(lambda store: store.start([(active.id, self.token(active, wrong)) for active in jobs]))

    @precondition(lambda self: self.active_jobs)
    @rule(index=indexes, is_of_last_lease=st.booleans(), voids=st.sampled_from([0, 0, 1, 2]))
    def start_through(self, index: int, is_of_last_lease: bool, voids: int) -> None:
        (active,) = self.pick(self.active_jobs, [index])
        lease = self.leases[-1].id if is_of_last_lease else active.lease
        self.ask(lambda store: prefetching(store).start_through(lease, active.token.number, voids))

    @precondition(lambda self: self.leases)
    @rule(index=indexes, voids=st.integers(1, 2))
    def void(self, index: int, voids: int) -> None:
        (lease,) = self.pick(self.leases, [index])
        self.ask(lambda store: prefetching(store).void(lease.id, voids))

    @precondition(lambda self: self.active_jobs)
    @rule(
        chosen=st.lists(
            st.tuples(indexes, strings, st.sampled_from([None, 0.5]), strings, st.sampled_from([None, b"", b"1"])), max_size=4
        ),
        wrong=indexes,
    )
    def report(self, chosen: list[tuple[int, str | None, float | None, str | None, bytes | None]], wrong: int) -> None:
        updates = []
        for index, stage, fraction, message, checkpoint in chosen:
            (active,) = self.pick(self.active_jobs, [index])
            update = ProgressUpdate(job=active.id, token=self.token(active, wrong), stage=stage, fraction=fraction)
            points = points_text(Track().after(1.0, stage=stage, fraction=fraction, message=message))
            updates.append(structs.replace(update, message=message, checkpoint=checkpoint, points=points))
        self.ask(lambda store: store.report(updates))

    @precondition(lambda self: self.active_jobs)
    @rule(chosen=some, result=st.sampled_from([None, b"late"]), stacks=strings, is_error=st.booleans(), wrong=indexes)
    def annotate(self, chosen: list[int], result: bytes | None, stacks: str | None, is_error: bool, wrong: int) -> None:
        error = Failure("Late", "error") if is_error else None
        notes = [
            AttemptNote(job=active.id, token=self.token(active, wrong), late_result=result, stacks=stacks, error=error)
            for active in self.pick(self.active_jobs, chosen)
        ]
        self.ask(lambda store: store.annotate(notes))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(chosen=some)
    def request_cancel(self, chosen: list[int]) -> None:
        ids = self.ids(chosen)
        self.ask(lambda store: store.request_cancel(ids))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(chosen=some, is_fresh=st.booleans())
    def reopen(self, chosen: list[int], is_fresh: bool) -> None:
        ids = self.ids(chosen)
        self.ask(lambda store: store.reopen(ids, is_fresh=is_fresh))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(chosen=some, delay=st.sampled_from([0.0, 5.0]), run_in=st.sampled_from([None, None, -5.0, 5.0]))
    def reschedule(self, chosen: list[int], delay: float, run_in: float | None) -> None:
        ids, now = self.ids(chosen), datetime.fromtimestamp(self.clock.wall(), UTC)
        moment = None if run_in is None else now + timedelta(seconds=run_in)
        self.ask(lambda store: store.reschedule(ids, delay=delay, run_at=moment))

    @precondition(lambda self: any(jobs for _, jobs in self.calls))
    @rule(chosen=some, only_waiting=st.booleans())
    def delete(self, chosen: list[int], only_waiting: bool) -> None:
        ids = self.ids(chosen)
        self.ask(lambda store: store.delete(ids, only_waiting=only_waiting))

    @rule(queue=st.sampled_from([*QUEUES, "none"]), limit=ALL_OR_NONE)
    def purge(self, queue: str, limit: int) -> None:
        self.ask(lambda store: store.purge(queue, limit))

    @rule(limit=counts)
    def expire(self, limit: int) -> None:
        self.ask(lambda store: store.expire(limit))

    @rule(tasks=tasks, limit=counts, pause=st.sampled_from([0.5, 30.0]))
    def take_hooks(self, tasks: list[str], limit: int, pause: float) -> None:
        self.ask(lambda store: store.owed_hooks(tasks, limit, pause=pause))

    @rule(queues=st.lists(st.sampled_from(QUEUES), max_size=2), is_paused=st.booleans())
    def pause(self, queues: list[str], is_paused: bool) -> None:
        self.ask(lambda store: store.pause(queues, is_paused=is_paused))

    @rule(limit=ALL_OR_NONE)
    def prune(self, limit: int) -> None:
        self.ask(lambda store: store.prune(limit))

    @precondition(lambda self: self.active_jobs)
    @rule(limit=counts)
    def judge_the_overdue(self, limit: int) -> None:
        found = self.ask(lambda store: store.overdue(limit))
        self.exchange([deadline_exceeded_elsewhere(each.job, each.charge, jitter=0.0) for each in found], None)

    @rule(seconds=st.sampled_from([0.000001, 1.0, 2.0, 10.0, 10.000001, 29.0, 31.0, 900.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if self.store_clock is not self.clock:
            self.store_clock.advance(seconds)

    @rule(seconds=st.sampled_from([-5.0, 3.0]))
    def step_wall(self, seconds: float) -> None:
        self.store_clock.step_wall(seconds)

    @rule(state=st.none() | st.sampled_from(State), task=st.none() | st.just("a"), tag=st.none() | st.just("t"), limit=counts)
    def list_some(self, state: State | None, task: str | None, tag: str | None, limit: int) -> None:
        rows = self.ask(lambda store: store.list(JobFilter(state=state, task=task, tag=tag, limit=limit)))
        if rows:
            self.ask(lambda store: store.list(JobFilter(state=state, task=task, queue="x", before=rows[-1].id)))

    @rule(queue=st.sampled_from([*QUEUES, "none"]), settings=st.none() | queue_settings)
    def set_queue(self, queue: str, settings: QueueSettings | None) -> None:
        self.ask(lambda store: lanes(store).set_queue(queue, settings))

    @rule(scope=scopes, limit=st.none() | limits)
    def set_limit(self, scope: Scope, limit: Limit | None) -> None:
        self.ask(lambda store: store_defaults.limits(store).set_limit(scope, limit, Origin()))

    @precondition(lambda self: self.leases)
    @rule(index=indexes, limit=counts, tasks=tasks, queues=queues)
    def claim_within_limits(self, index: int, limit: int, tasks: list[str], queues: tuple[str, ...] | None) -> None:
        (lease,) = self.pick(self.leases, [index])
        request = self.request(lease.id, limit, 0, tasks, queues)
        self.exchange([], structs.replace(request, kind=ClaimKind.LIMITED, cursor=self.cursor_within_limits))

    @rule(tasks=tasks, queues=queues, limit=counts, isolated=st.sampled_from(IsolatedJobs))
    def read_some(self, tasks: list[str], queues: tuple[str, ...] | None, limit: int, isolated: IsolatedJobs) -> None:
        self.ask(lambda store: store.next_due(tasks, queues, isolated))
        self.ask(lambda store: store.due(tasks, limit, queues=queues, isolated=isolated, age=0.5 * limit))
        self.ask(lambda store: store.queues())
        self.ask(lambda store: store_defaults.limits(store).limits())
        self.ask(lambda store: store.waiting_tasks())
        self.ask(lambda store: store.expired(limit))
        self.ask(lambda store: store.counts("task"))
        self.ask(lambda store: store.counts("queue"))
        for lease in self.leases[-2:]:
            self.ask(lambda store, lease=lease: store.held(lease.id, limit))  # type: ignore[misc]

    @invariant()
    def both_stores_have_the_same_state(self) -> None:
        for _, jobs in self.calls:
            for job in jobs:
                self.ask(lambda store, job=job: store.get(job.id))  # type: ignore[misc]
        self.ask(lambda store: store.counts())
        self.ask(lambda store: store.overdue(100))
        for lease in self.leases:
            self.ask(lambda store, lease=lease: store.held(lease.id))  # type: ignore[misc]
            self.ask(lambda store, lease=lease: worker_history(store, lease.worker, 100))  # type: ignore[misc]
        self.ask(lambda store: store.workers())
        self.ask(lambda store: store.expired(100))
        views = [self.runner.run(store.expired(100)) for store in (self.oracle, self.store)]
        for pair in zip(*views, strict=True):
            self.seen_values.setdefault(pair[0].id, []).append(tuple(view.seen for view in pair))

    def request(
        self, lease: UUID, limit: int, prefetch: int, tasks: Sequence[str], queues: tuple[str, ...] | None
    ) -> ClaimRequest:
        known = {task: POLICIES[index] for index, task in enumerate(tasks)}
        if any(each.id == lease and each.is_isolated for each in self.leases):  # it claims one job at a time
            limit, prefetch = min(limit, 1), min(prefetch, 0 if limit else 1)
        return ClaimRequest(
            lease=lease,
            claim=self.chance.uuid4(),
            tasks=known,
            limit=limit,
            prefetch=prefetch,
            queues=queues,
            cursor=self.cursor,
        )

    def exchange(self, moves: Sequence[Transition], request: ClaimRequest | None) -> None:
        answer = self.ask(lambda store: store.exchange(moves, request))
        if request is not None and request.kind is ClaimKind.LIMITED:
            self.cursor_within_limits = answer.cursor
        elif request is not None:
            self.cursor = answer.cursor
        self.active_jobs += [claim.job for claim in answer.claims]

    def move(self, active: ActiveJob, kind: int) -> Transition:
        if kind < len(OUTCOMES):
            return structs.replace(
                moved := finish(active, OUTCOMES[kind], jitter=0.5), forgets_steps=kind == 1 or moved.forgets_steps
            )
        kinds = [
            lambda: release(active, code_ran=False),
            lambda: release(active, code_ran=True),
            lambda: cancelled(active),
            lambda: voided(active, 1),
            lambda: voided(active, 2),
            *(lambda end=end: rescue(active, end, jitter=-0.5) for end in ENDS),
            *(lambda charge=charge: deadline_exceeded(active, charge, jitter=0.0) for charge in OVERRUNS),
            *(lambda charge=charge: deadline_exceeded_elsewhere(active, charge, jitter=0.0) for charge in OVERRUNS),
        ]
        return kinds[(kind - len(OUTCOMES)) % len(kinds)]()


def comparable(answer: object) -> object:
    """Return the parts that must be equal.

    It leaves out what differs by store: ``seen``, where it is kept that a unique key is freed, and which results come with a claim.
    """
    match answer:
        case JobRecord():
            return structs.replace(answer, uniqueness=structs.replace(answer.uniqueness, is_freed=False))
        case LeaseView():
            return structs.replace(answer, seen="")
        case Claim():
            return structs.replace(answer, results=())
        case ExchangeAnswer():
            return structs.replace(answer, claims=comparable(answer.claims))
        case tuple():
            return tuple(comparable(each) for each in answer)
        case _:
            return answer


class SqliteModel(Model):
    """SQLite, which takes due times from its worker's wall clock, as the memory store does."""

    def make_store(self) -> tuple[asyncio.Runner, Store]:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "jobs.db"
        return asyncio.Runner(), SqliteStore(path, clock=self.clock, chance=FakeChance(), process=PROCESS)

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()


SqliteModel.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=50, deadline=None)


@pytest.mark.timeout(3600 if EXAMPLES > 40 else 60)
class TestModel(SqliteModel.TestCase):
    """Hypothesis' own test case."""


@pytest.mark.prove
@pytest.mark.timeout(3600)
class TestLong(TestModel):
    """The same with many more examples."""

    settings = settings(TestModel.settings, max_examples=10 * EXAMPLES)
