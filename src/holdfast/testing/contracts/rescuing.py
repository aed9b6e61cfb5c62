"""Rescues: what is kept of the attempt that was interrupted, and the hook that is owed for it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, Rescue, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd, Transition, cancelled, deadline_exceeded_elsewhere
from holdfast._core.outcome import Fail, Retry, Snooze
from holdfast._core.policy import HOOK_RETENTION, LONGEST_HOOK_DELAY, RETENTION_FLOOR, Backoff, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._engine import store_defaults
from holdfast._ports.store import RescueHooks
from holdfast.errors import JobLost, Unsupported
from holdfast.testing.contracts.scene import EARLY, TTL, Part, Scene, answered, done, needs, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
PAUSE, ALL = 20.0, 100
DAY = 86400.0
TASKS = ("task",)
HOOKED = Policy(has_rescue_hook=True, max_crashes=20, max_attempts=20, backoff=Backoff.fixed("0s"))
ENDS_AT_ONCE = structs.replace(HOOKED, on_crash=CrashPolicy.FAIL)
HOLDS = structs.replace(HOOKED, on_crash=CrashPolicy.HOLD)


async def crash(at: Scene, job: ActiveJob, why: LeaseEnd = CRASH) -> JobRecord:
    """End the lease of a job's worker, rescue the job, and return its record."""
    await at.store.end_lease(job.lease, why)
    assert await at.settle(rescued(job, why)) == (Answer.APPLIED,)
    return await at.row(job.id)


async def crashed(at: Scene, policy: Policy = HOOKED) -> JobRecord:
    """Make a job whose first worker has died."""
    return await crash(at, await at.running(policy=policy))


async def again(at: Scene, row: JobRecord, policy: Policy = HOOKED) -> ActiveJob:
    """Claim the next attempt of a job."""
    (claim,) = await at.claim(await at.lease(worker="second"), queues=(row.queue,), policy=policy)
    return claim.job


async def offered(at: Scene, *, limit: int = ALL, pause: float = PAUSE) -> list[JobRecord]:
    """List the jobs whose hooks are due although no attempt of theirs follows."""
    return list(await store_defaults.owed_hooks(at.store, TASKS, limit, pause=pause))


@asynccontextmanager
async def hook_transaction(at: Scene, row: JobRecord, mark: datetime | None = None) -> AsyncIterator[None]:
    """Open the transaction in which a job's hook runs."""
    async with store_defaults.transaction(at.store, row.id, row.token, idle=5.0, hook_due_at=mark or row.hook_due_at):
        yield


async def run_hook(at: Scene, row: JobRecord, mark: datetime | None = None) -> str:
    """Commit the transaction of a job's hook; return ``lost`` if the store refuses it."""
    try:
        async with hook_transaction(at, row, mark):
            return "healed"
    except JobLost:
        return "lost"


def blocking_run_hook(at: Scene, row: JobRecord) -> str:
    """Commit the blocking transaction of a job's hook; return ``lost`` if the store refuses it."""
    try:
        with store_defaults.blocking_transaction(at.store, row.id, row.token, idle=5.0, hook_due_at=row.hook_due_at):
            return "healed"
    except JobLost:
        return "lost"


def refusal(at: Scene, row: JobRecord) -> Iterator[str]:
    """Yield the refusals of a store without transactions."""
    for open_ in (store_defaults.transaction, store_defaults.blocking_transaction):
        try:
            open_(at.store, row.id, row.token, idle=5.0, hook_due_at=row.hook_due_at)
        except Unsupported as error:
            yield str(error)


async def no_hooks(at: Scene) -> None:
    """Check that a store without the verb offers nothing, and that its workers refuse tasks with hooks."""
    assert not store_defaults.has_hooks(at.store)
    await crashed(at, ENDS_AT_ONCE)
    assert await offered(at) == []


class RescueContract(Part):
    """What is promised to a task with an ``on_rescue``, and to every reader who asks why a job runs again."""

    @story
    async def test_a_row_keeps_which_attempt_was_interrupted_and_the_claim_returns_it(self, at: Scene) -> None:
        for why, reason in (
            (CRASH, "crashed"),
            (LeaseEnd(RescueReason.EXPIRED), "expired"),
            (LeaseEnd(RescueReason.CLOSED, is_free=True), "closed"),
        ):
            job = await at.running(policy=Policy())
            row = await crash(at, job, why)
            assert row.rescue == Rescue(reason=RescueReason(reason), worker="worker", attempt=1, at=row.available_at)
            (claim,) = await at.claim(await at.lease(), queues=(row.queue,))
            assert (claim.rescue, claim.hook_due_at) == (row.rescue, None)
            await at.settle(done(claim.job))
            assert (await at.row(row.id)).rescue == row.rescue

    @story
    async def test_a_job_that_never_was_rescued_has_no_interruption(self, at: Scene) -> None:
        for settle in (done, raised, lambda job: answered(job, Retry()), lambda job: answered(job, Snooze(for_="1s"))):
            job = await at.running(policy=HOOKED)
            await at.settle(settle(job))
            row = await at.row(job.id)
            assert (row.rescue, row.hook_due_at) == (None, None)
        assert await offered(at) == []

    @story
    async def test_an_attempt_whose_code_never_ran_adds_no_rescue_and_removes_none(self, at: Scene) -> None:
        row = await crash(at, await at.prefetched())
        assert (row.rescue, row.hook_due_at) == (None, None)
        row = await crashed(at)
        (claim,) = await at.claim(await at.lease(), 0, prefetch=1, queues=(row.queue,), policy=HOOKED)
        assert (claim.rescue, claim.hook_due_at) == (row.rescue, row.hook_due_at)
        later = await crash(at, claim.job)
        assert (later.rescue, later.hook_due_at) == (row.rescue, row.hook_due_at)

    @story
    async def test_a_hook_is_owed_if_the_claim_declared_that_there_is_one(self, at: Scene) -> None:
        row = await crashed(at)
        assert row.rescue is not None
        assert row.hook_due_at == row.rescue.at
        (claim,) = await at.claim(await at.lease(), queues=(row.queue,), policy=HOOKED)
        assert claim.hook_due_at == row.hook_due_at
        assert (await crashed(at, Policy())).hook_due_at is None

    @story
    async def test_a_hook_stays_owed_in_every_state_of_the_job_until_that_completes(self, at: Scene) -> None:
        row = await crashed(at)
        settles: tuple[Callable[[ActiveJob], Transition], ...] = (
            raised,
            released,
            lambda job: answered(job, Retry()),
            lambda job: answered(job, Snooze(for_="0s")),
            lambda job: answered(job, Fail("no")),
            cancelled,
        )
        for settle in settles:
            job = await again(at, row)
            await at.settle(settle(job))
            left = await at.row(row.id)
            assert (left.rescue, left.hook_due_at) == (row.rescue, row.hook_due_at)
            await at.store.reopen([row.id])
        await at.settle(done(await again(at, row)))
        left = await at.row(row.id)
        assert (left.rescue, left.hook_due_at) == (row.rescue, None)

    @story
    @needs(RescueHooks, no_hooks)
    async def test_an_operator_who_cancels_or_reopens_it_leaves_it_owed(self, at: Scene) -> None:
        row = await crashed(at)
        await at.store.request_cancel([row.id])
        (ended,) = await offered(at)
        assert (ended.id, ended.state, ended.rescue) == (row.id, State.CANCELLED, row.rescue)
        await at.store.reopen([row.id])
        (claim,) = await at.claim(await at.lease(), queues=(row.queue,), policy=HOOKED)
        assert (claim.rescue, claim.hook_due_at) == (row.rescue, ended.hook_due_at)
        assert await offered(at) == []

    @story
    async def test_a_later_rescue_is_the_one_that_counts(self, at: Scene) -> None:
        row = await crashed(at)
        job = await again(at, row)
        at.advance(TTL + 1.0)
        later = await crash(at, job, LeaseEnd(RescueReason.EXPIRED))
        assert later.rescue == Rescue(reason=RescueReason.EXPIRED, worker="second", attempt=2, at=later.available_at)
        assert row.hook_due_at is not None
        assert later.hook_due_at is not None
        assert later.hook_due_at > row.hook_due_at

    @story
    async def test_others_who_judge_a_limit_leave_the_same(self, at: Scene) -> None:
        limits = {RescueReason.STALLED: {"progress_within": 1.0}, RescueReason.TIMED_OUT: {"timeout": 1.0}}
        for charge, limit in limits.items():
            job = await at.running(policy=structs.replace(HOOKED, **limit))
            assert await at.settle(deadline_exceeded_elsewhere(job, charge, jitter=0.0)) == (Answer.LOST,)
            assert (await at.row(job.id)).rescue is None
            at.advance(TTL + 100.0)
            assert await at.settle(deadline_exceeded_elsewhere(job, charge, jitter=0.0)) == (Answer.APPLIED,)
            row = await at.row(job.id)
            assert row.rescue is not None
            assert (row.rescue.reason, row.hook_due_at) == (charge.value, row.rescue.at)

    @story
    async def test_a_rescue_sent_again_changes_nothing(self, at: Scene) -> None:
        job = await at.running(policy=HOOKED)
        row = await crash(at, job)
        at.advance(1.0)
        assert await at.settle(rescued(job, CRASH)) == (Answer.APPLIED,)
        assert await at.row(job.id) == row

    @story
    @needs(RescueHooks, no_hooks)
    async def test_what_ended_or_is_held_is_offered_and_nothing_else(self, at: Scene) -> None:
        failed, held = await crashed(at, ENDS_AT_ONCE), await crashed(at, HOLDS)
        waiting, running = await crashed(at), await again(at, await crashed(at))
        finished = await at.running(policy=HOOKED)
        await at.settle(raised(finished))
        assert await store_defaults.owed_hooks(at.store, ("other",), ALL, pause=PAUSE) == ()
        assert [(row.id, row.state, row.token, row.payload) for row in await offered(at)] == [
            (failed.id, State.FAILED, failed.token, b"{}"),
            (held.id, State.HELD, held.token, b"{}"),
        ]
        assert [await at.state(job) for job in (waiting.id, running.id)] == [State.AVAILABLE, State.RUNNING]

    @story
    @needs(RescueHooks, no_hooks)
    async def test_never_more_than_asked_and_those_first_that_have_waited_longest(self, at: Scene) -> None:
        rows = []
        for _ in range(3):
            rows.append(await crashed(at, ENDS_AT_ONCE))
            at.advance(1.0)
        found = [[row.id for row in await offered(at, limit=2)] for _ in range(3)]
        assert found == [[rows[0].id, rows[1].id], [rows[2].id], []]

    @story
    @needs(RescueHooks, no_hooks)
    async def test_those_that_ended_and_those_that_are_held_wait_in_one_line(self, at: Scene) -> None:
        rows = []
        for policy in (HOLDS, HOLDS, ENDS_AT_ONCE, HOLDS, ENDS_AT_ONCE, ENDS_AT_ONCE):
            rows.append((await crashed(at, policy)).id)
            at.advance(1.0)
        assert [[row.id for row in await offered(at, limit=1)] for _ in range(2)] == [rows[:1], rows[1:2]]
        assert [row.id for row in await offered(at, limit=3)] == rows[2:5]
        assert [row.id for row in await offered(at, limit=3)] == rows[5:]

    @story
    @needs(RescueHooks, no_hooks)
    async def test_what_was_offered_comes_again_after_a_pause_that_grows_with_its_age(self, at: Scene) -> None:
        row = await crashed(at, ENDS_AT_ONCE)
        marks = [row.hook_due_at]
        for pause in (PAUSE, PAUSE, 2 * PAUSE, 4 * PAUSE):
            (again_,) = await offered(at)
            marks.append(again_.hook_due_at)
            assert (await at.row(row.id)).hook_due_at == again_.hook_due_at
            at.advance(pause - EARLY * 100)
            assert await offered(at) == []
            at.advance(EARLY * 100)
        assert len(set(marks)) == len(marks)
        at.advance(9 * LONGEST_HOOK_DELAY)
        assert len(await offered(at)) == 1
        at.advance(LONGEST_HOOK_DELAY - EARLY * 100)
        assert await offered(at) == []
        at.advance(EARLY * 100)
        assert len(await offered(at)) == 1

    @story
    @needs(RescueHooks, no_hooks)
    async def test_two_who_look_at_once_are_not_offered_the_same(self, at: Scene) -> None:
        rows = {(await crashed(at, ENDS_AT_ONCE)).id for _ in range(4)}
        found = await asyncio.gather(*(store_defaults.owed_hooks(at.another(), TASKS, 2, pause=PAUSE) for _ in range(4)))
        ids = [row.id for each in found for row in each]
        assert len(ids) == len(set(ids))
        assert {*ids, *(row.id for row in await offered(at))} == rows

    @story
    @needs(RescueHooks, no_hooks)
    async def test_while_a_hook_is_owed_the_whole_job_is_kept_under_any_retention(self, at: Scene) -> None:
        short = structs.replace(ENDS_AT_ONCE, retention=0.0)
        ended, waiting = await crashed(at, short), await crashed(at, structs.replace(HOOKED, retention=0.0))
        await at.store.request_cancel([waiting.id])
        retried = structs.replace(HOOKED, retention=0.0)
        failed, completed = [await again(at, await crashed(at, retried), retried) for _ in range(2)]
        await at.settle(answered(failed, Fail("no")), done(completed))
        others = [completed.id, *[(await crashed(at, structs.replace(short, has_rescue_hook=False))).id for _ in range(2)]]
        at.advance(RETENTION_FLOOR)
        answer = await at.store.prune(ALL)
        assert (answer.jobs, answer.stubs) == (len(others), 0)
        at.advance(HOOK_RETENTION - RETENTION_FLOOR - 1.0)
        assert (await at.store.prune(ALL)).jobs == 0
        assert {(row.id, row.payload) for row in await offered(at)} == {(job, b"{}") for job in (ended.id, waiting.id, failed.id)}
        at.advance(2 * DAY)  # some stores delete entire days
        assert (await at.store.prune(ALL)).jobs >= 3
        assert await at.store.list(at.everything) == ()

    # hooks

    @story
    async def test_a_store_without_transactions_refuses_them(self, at: Scene) -> None:
        row = await crashed(at, ENDS_AT_ONCE)
        if at.store.capabilities.caller_transaction:
            assert await run_hook(at, row) == "healed"
        else:
            refusals = list(refusal(at, row))
            assert len(refusals) == 2
            assert all(at.store.capabilities.name in each for each in refusals)

    @story
    async def test_the_hooks_transaction_clears_it_in_every_state_of_the_job(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        running = await again(at, await crashed(at))
        for job in (running.id, (await crashed(at, ENDS_AT_ONCE)).id, (await crashed(at, HOLDS)).id):
            row = await at.row(job)
            assert await run_hook(at, row) == "healed"
            left = await at.row(job)
            assert (left.hook_due_at, left.rescue, left.state, left.token) == (None, row.rescue, row.state, row.token)
            assert await run_hook(at, row) == "lost"
        assert await offered(at) == []
        assert await at.settle(done(running)) == (Answer.APPLIED,)

    @story
    async def test_in_a_thread_it_does_the_same(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        for policy in (ENDS_AT_ONCE, HOLDS):
            row = await crashed(at, policy)
            assert [await asyncio.to_thread(blocking_run_hook, at, row) for _ in range(2)] == ["healed", "lost"]
            assert (await at.row(row.id)).hook_due_at is None

    @story
    async def test_what_is_rolled_back_is_still_owed(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        row = await crashed(at, ENDS_AT_ONCE)
        try:
            async with hook_transaction(at, row):
                raise KeyError(row.id)
        except KeyError:
            assert await at.row(row.id) == row
        assert await run_hook(at, row) == "healed"

    @story
    async def test_a_hook_needs_its_token_and_its_due_time(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        row, other = await crashed(at, ENDS_AT_ONCE), await crashed(at, HOLDS)
        wrong = (
            structs.replace(row, token=Token(row.token.claim, row.token.number + 1)),
            structs.replace(row, token=Token(None, row.token.number)),
            structs.replace(row, token=Token(at.chance.uuid4(), row.token.number)),
            structs.replace(row, id=other.id),
            structs.replace(row, id=at.chance.uuid7()),
            structs.replace(row, hook_due_at=at.now + timedelta(seconds=1)),
        )
        assert [await run_hook(at, each) for each in wrong] == ["lost"] * len(wrong)
        marked = {each.id: each for each in await offered(at)}
        assert await run_hook(at, row) == "lost"
        assert await run_hook(at, marked[row.id]) == "healed"

    @story
    async def test_a_hook_of_an_attempt_that_was_rescued_again_changes_nothing(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        job = await again(at, await crashed(at))
        row = await at.row(job.id)
        at.advance(1.0)
        left = await crash(at, job)
        assert await run_hook(at, row) == "lost"
        assert (await at.row(job.id)).hook_due_at == left.hook_due_at

    @story
    async def test_a_job_whose_hook_has_run_is_kept_no_longer_than_others(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        row = await crashed(at, ENDS_AT_ONCE)
        assert await run_hook(at, row) == "healed"
        at.advance(HOOK_RETENTION + 2 * DAY)
        assert (await at.store.prune(ALL)).jobs == 1

    @story
    async def test_a_hook_that_has_run_leaves_a_failed_job_the_retention_of_failed_ones(self, at: Scene) -> None:
        if not at.store.capabilities.caller_transaction:
            return
        kept = {"retention": 10 * DAY, "retention_failed": 30 * DAY}
        failed = await crashed(at, structs.replace(ENDS_AT_ONCE, **kept))
        cancelled = await crashed(at, structs.replace(HOOKED, **kept))
        await at.store.request_cancel([cancelled.id])
        for job in (failed.id, cancelled.id):
            assert await run_hook(at, await at.row(job)) == "healed"
        at.advance(12 * DAY)  # some stores delete entire days
        assert (await at.store.prune(ALL)).jobs == 1
        assert await at.state(failed.id) is State.FAILED
        at.advance(20 * DAY)
        assert (await at.store.prune(ALL)).jobs == 1
