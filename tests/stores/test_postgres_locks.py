"""Two concurrent transactions: which locks a verb waits for, and which it passes by."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Snooze
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.requests import ClaimRequest, IsolatedJobs, ProgressUpdate
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres.lane_walk import Walk
from holdfast.testing.contracts.isolating import with_last_try
from holdfast.testing.contracts.noting import noted
from holdfast.testing.contracts.rescuing import ENDS_AT_ONCE, HOLDS, TASKS, crashed
from holdfast.testing.contracts.scene import Scene, answered, done, play, raised
from tests.stores.postgres_concurrent_sessions import Stage, locked, paused, rival, waits
from tests.stores.postgres_databases import Home

CRASH = LeaseEnd(RescueReason.CRASHED)
DAY = 86400.0

# locks that are passed by

WAYS: dict[str, Callable[[Sequence[UUID]], tuple[Any, ...]]] = {
    "due_range": lambda _: ("task", 0, "default", "", datetime.min, UUID(int=0)),
    "lanes": lambda _: Walk(look=4).parameters(ClaimRequest(lease=UUID(int=0), claim=UUID(int=0), tasks={}, limit=1)),
    "due_ids": lambda ids: (ids, None),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_claim_passes_by_jobs_that_another_claim_has_locked(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        first, second, third = await at.enqueue(at.new(), at.new(), at.new())
        request = at.request(await at.lease(), 2, tasks=["task", "other"])
        values = (*packing.settling(()), *packing.claiming(request), *WAYS[way]([first, second, third]))
        with locked(home, "pending", f"id = '{first}'"):
            claiming = asyncio.ensure_future(at.store._fetch(f"claim {way}", *values))  # type: ignore[attr-defined]
            assert not await waits(home, claiming)
        assert [row["id"] for row in await claiming if row["id"] is not None] in ([second], [second, third])

    play(Stage(home), act)


async def two_expired(at: Scene) -> None:
    await at.enqueue(at.new(expires_in=1.0), at.new(expires_in=2.0))
    at.advance(3.0)


async def purged(at: Scene) -> int:
    return (await at.store.purge("default", 10)).jobs


async def two_keyed_expired(at: Scene) -> None:
    await at.enqueue(at.new(expires_in=1.0, key="k"), at.new(expires_in=2.0, key="l"))
    at.advance(3.0)


async def two_waiting(at: Scene) -> None:
    await at.enqueue(at.new(), at.new())


async def two_finished(at: Scene, retention: float = 0.0) -> None:
    for _ in range(2):
        await at.settle(done(await at.running(policy=Policy(retention=retention))))


async def two_forgotten(at: Scene) -> None:
    await two_finished(at)
    at.advance(RETENTION_FLOOR)


async def two_snoozed(at: Scene) -> None:
    for _ in range(2):
        await at.settle(answered(await at.running(), Snooze(for_="1s")))
    at.advance(RETENTION_FLOOR)


async def two_ended(at: Scene) -> None:
    for _ in range(2):
        await at.store.end_lease(await at.lease(), CRASH)
    at.advance(RETENTION_FLOOR)


async def two_noted(at: Scene) -> None:
    await noted(at, await at.lease(), 1, 2, kept=0.0)


async def two_owing(at: Scene, policy: Policy = ENDS_AT_ONCE) -> None:
    for _ in range(2):
        await crashed(at, policy)


async def two_long_gone(at: Scene) -> None:
    await two_finished(at, 2 * DAY)


async def two_long_gone_with_long_payloads(at: Scene) -> None:
    for _ in range(2):
        await at.enqueue(at.new(payload=b"x" * 2000))
        (claim,) = await at.claim(await at.lease(), policy=Policy(retention=2 * DAY))
        await at.settle(done(claim.job))


async def two_long_gone_with_attempts(at: Scene) -> None:
    for _ in range(2):
        await at.settle(raised(await at.running(policy=Policy(retention=2 * DAY, max_attempts=1))))


async def pruned(at: Scene, kind: str) -> int:
    return int(getattr(await at.store.prune(10), kind))


async def forgotten(at: Scene, kind: str) -> int:
    ((jobs, attempts),) = await at.store._fetch("empty_partitions", date.max, 10, True)  # type: ignore[attr-defined]
    return int({"jobs": jobs, "attempts": attempts}[kind])


async def with_hooks_offered(at: Scene) -> int:
    return len(await at.store.owed_hooks(TASKS, 10, pause=1.0))


async def expired(at: Scene) -> int:
    return len(await at.store.expire(10))


SETS = {
    "jobs that expired": (two_expired, "pending", expired),
    "jobs that expired, by their keys": (two_keyed_expired, "unique_keys", expired),
    "jobs to be purged": (two_waiting, "pending", purged),
    "jobs that are forgotten": (two_forgotten, "finished_other", lambda at: pruned(at, "jobs")),
    "jobs that become stubs": (two_finished, "finished_other", lambda at: pruned(at, "stubs")),
    "snoozes": (two_snoozed, "attempts", lambda at: pruned(at, "attempts")),
    "receipts": (two_forgotten, "receipts", lambda at: pruned(at, "receipts")),
    "leases": (two_ended, "leases", lambda at: pruned(at, "leases")),
    "beats": (two_noted, "beats", lambda at: pruned(at, "beats")),
    "jobs that ended owing a hook": (two_owing, "finished", with_hooks_offered),
    "jobs held owing a hook": (lambda at: two_owing(at, HOLDS), "pending", with_hooks_offered),
    "jobs of days": (two_long_gone, "finished", lambda at: forgotten(at, "jobs")),
    "long jobs of days": (two_long_gone_with_long_payloads, "finished", lambda at: forgotten(at, "jobs")),
    "attempts of days": (two_long_gone_with_attempts, "attempts", lambda at: forgotten(at, "attempts")),
}
Set = tuple[Callable[[Scene], Coroutine[Any, Any, None]], str, Callable[[Scene], Coroutine[Any, Any, int]]]


@pytest.mark.parametrize("name", SETS)
def test_maintenance_passes_by_locked_rows(home: Home, name: str) -> None:
    prepare, table, tidy = SETS[name]

    async def act(at: Scene) -> None:
        await prepare(at)
        with locked(home, table, f"ctid = (SELECT min(ctid) FROM holdfast.{table})"):
            tidying = asyncio.ensure_future(tidy(at))
            assert not await waits(home, tidying)
            assert await tidying == 1
        assert await tidy(at) == 1

    play(Stage(home), act)


# locks that are waited for


def test_s5_a_lease_ends_after_the_claim_that_is_under_way(home: Home) -> None:
    """The caller that ended it then finds all of its jobs."""

    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        lease = await at.lease()
        async with rival(home) as owner:
            assert len((await owner.exchange((), at.request(lease))).claims) == 1
            ending = asyncio.ensure_future(at.store.end_lease(lease, CRASH))
            assert await waits(home, ending)
        assert await ending == CRASH
        assert [active.id for active in await at.store.held(lease)] == [job]

    play(Stage(home), act)


def test_s8_a_lease_ends_after_the_start_that_is_under_way(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.prefetched()
        async with rival(home) as owner:
            assert await owner.start([(active.id, active.token)]) == frozenset()
            ending = asyncio.ensure_future(at.store.end_lease(active.lease, CRASH))
            assert await waits(home, ending)
        await ending
        assert await at.state(active.id) is State.RUNNING

    play(Stage(home), act)


def test_s9_of_two_claims_for_an_isolated_lease_the_second_sees_the_first(home: Home) -> None:
    async def act(at: Scene) -> None:
        for _ in range(2):
            await with_last_try(at)
        lease = structs.replace(at.new_lease(), is_isolated=True)
        await at.store.open_lease(lease)
        requests = [at.request(lease.id, tasks=["last"], isolated=IsolatedJobs.ONLY) for _ in range(2)]
        async with rival(home) as first:
            assert len((await first.exchange((), requests[0])).claims) == 1
            second = asyncio.ensure_future(at.store.exchange((), requests[1]))
            assert await waits(home, second)
        assert (await second).claims == ()

    play(Stage(home), act)


def test_s13_a_parent_settles_after_the_enqueue_of_its_child_that_is_under_way(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, child = await at.running(), at.new()
        async with rival(home) as owner:
            assert await owner.enqueue(at.chance.uuid4(), [child], under=(active.id, active.token)) == EnqueueAnswer()
            assert await at.settle(done(active)) == (Answer.BUSY,)
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        assert await at.state(child.id) is State.AVAILABLE

    play(Stage(home), act)


def test_s3_a_transaction_that_is_about_to_commit_keeps_its_job_and_lets_reports_through(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        asked = (active.id, active.token.claim, active.token.number)
        async with rival(home) as owner:
            ((is_ours, _),) = await owner._fetch("transaction_ends", *asked)
            assert is_ours
            assert await at.store.report([ProgressUpdate(job=active.id, token=active.token, stage="s")]) == frozenset()
            assert await at.settle(done(active)) == (Answer.BUSY,)
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(Stage(home), act)


def test_s10_of_two_concurrent_reopens_the_second_finds_the_job_available(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        await at.settle(done(active))
        async with rival(home) as first:
            assert (await first.reopen([active.id])).states == {active.id: State.AVAILABLE}
            second = asyncio.ensure_future(at.store.reopen([active.id]))
            assert await waits(home, second)
        assert (await second).states == {active.id: State.AVAILABLE}
        assert len(home.sql("SELECT job FROM holdfast.attempts")) == 1

    play(Stage(home), act)


def test_s10_of_two_copies_of_a_call_the_second_gets_the_answer_of_the_first(home: Home) -> None:
    async def act(at: Scene) -> None:
        (holder,) = await at.enqueue(at.new(key="k"))
        for jobs in ([at.new(key="k"), at.new()], [at.new(key="free")], [at.new(), at.new()]):
            call, is_known = at.chance.uuid4(), jobs[0].unique_key == "k"
            expected = EnqueueAnswer({jobs[0].id: Duplicate(holder, is_same=True)} if is_known else {})
            async with rival(home) as first:
                assert await first.enqueue(call, jobs) == expected
                second = asyncio.ensure_future(at.store.enqueue(call, jobs))
                assert await waits(home, second)
            assert await second == expected
        assert sum((await at.store.counts()).values()) == 5

    play(Stage(home), act)


def test_l4_beats_that_are_under_way_keep_no_claim_waiting(home: Home) -> None:
    async def act(at: Scene) -> None:
        lease, isolated_lease = await at.lease(), structs.replace(at.new_lease(), is_isolated=True)
        await at.store.open_lease(isolated_lease)
        (job,) = await at.enqueue(at.new())
        with locked(home, "leases", lock="NO KEY UPDATE"):
            for ids in ([at.chance.uuid4()], [job]):
                claiming = asyncio.ensure_future(at.claim(lease, ids=ids))
                assert not await waits(home, claiming)
                assert [claim.job.id for claim in await claiming] == [each for each in ids if each == job]

    play(Stage(home), act)


def test_l4_a_copy_of_a_childs_enqueue_does_not_wait_for_a_lock_on_its_parent(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, child, call = await at.running(), at.new(), at.chance.uuid4()
        under = (active.id, active.token)
        assert await at.store.enqueue(call, [child], under=under) == EnqueueAnswer()
        with locked(home, "active"):
            copy = asyncio.ensure_future(at.store.enqueue(call, [child], under=under))
            assert not await waits(home, copy)
        assert await copy == EnqueueAnswer()

    play(Stage(home), act)


def test_l4_a_start_waits_for_no_lease_but_its_own(home: Home) -> None:
    async def act(at: Scene) -> None:
        active, other = await at.prefetched(), await at.prefetched()
        with locked(home, "leases", f"id = '{other.lease}'"):
            starting = asyncio.ensure_future(at.store.start([(active.id, active.token)]))
            assert not await waits(home, starting)
        assert await starting == frozenset()

    play(Stage(home), act)


@pytest.mark.parametrize("policy", [ENDS_AT_ONCE, HOLDS])
def test_l4_an_offer_of_one_hook_locks_no_other_hook(home: Home, policy: Policy) -> None:
    async def act(at: Scene) -> None:
        rows = []
        for _ in range(2):
            rows.append((await crashed(at, policy)).id)
            at.advance(1.0)
        async with rival(home) as first:
            assert [row.id for row in await first.owed_hooks(TASKS, 1, pause=1.0)] == rows[:1]
            assert [row.id for row in await at.store.owed_hooks(TASKS, 1, pause=1.0)] == rows[1:]

    play(Stage(home), act)


@pytest.mark.parametrize("way", WAYS)
def test_s1_a_claim_that_waited_checks_again_whether_its_jobs_are_due(home: Home, way: str) -> None:
    async def act(at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new(priority=0 if way == "due_range" else 1))
        request = at.request(await at.lease(), tasks=["task"])
        values = (*packing.settling(()), *packing.claiming(request), *WAYS[way]([first, second]))
        with paused(home, at.store, f"claim {way}"):
            claiming = asyncio.ensure_future(at.store._fetch(f"claim {way}", *values))  # type: ignore[attr-defined]
            assert await waits(home, claiming)
            assert await at.another().reschedule([first], delay=60.0) == {first: State.SCHEDULED}
        assert [row["id"] for row in await claiming if row["id"] is not None] == [second]
        assert await at.state(first) is State.SCHEDULED

    play(Stage(home), act)


def test_s4_a_reopen_of_a_job_that_is_claimed_in_the_meantime_answers_that_it_runs(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new(delay=60.0))
        request = at.request(await at.lease())
        async with rival(home) as other:
            await other.reschedule([job])
            assert len((await other.exchange((), request)).claims) == 1
            reopening = asyncio.ensure_future(at.store.reopen([job]))
            assert await waits(home, reopening)
        assert (await reopening).states == {job: State.RUNNING}

    play(Stage(home), act)


@pytest.mark.parametrize("verb", ["request_cancel", "reschedule", "delete"])
def test_s4_an_operators_verb_beside_a_claim_answers_the_state_after_the_claim(home: Home, verb: str) -> None:
    async def act(at: Scene) -> None:
        job, other = await at.enqueue(at.new(delay=1.0), at.new(delay=100.0))
        request = at.request(await at.lease())
        at.advance(1.0)
        async with rival(home) as owner:
            assert len((await owner.exchange((), request)).claims) == 1
            asking = asyncio.ensure_future(getattr(at.store, verb)([job, other]))
            assert await waits(home, asking)
        others = {"request_cancel": {other: State.CANCELLED}, "reschedule": {other: State.AVAILABLE}, "delete": {}}
        assert await asking == {job: State.RUNNING, **others[verb]}
        assert (await at.row(job)).cancel_requested is (verb == "request_cancel")

    play(Stage(home), act)
