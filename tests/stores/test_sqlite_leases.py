"""Leases of other kernels, and leases whose row is gone."""

from pathlib import Path

import pytest
from msgspec import structs

from holdfast._core.answers import Answer, OverdueJob
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, deadline_exceeded_elsewhere
from holdfast._core.policy import Policy
from holdfast._core.timing import LeaseTiming
from holdfast.testing.contracts.scene import EARLY, PROCESS, TTL, Scene, done, play, rescued
from tests.stores.support import OnFile, sql, store_on

OTHERS = [
    structs.replace(PROCESS, boot="another boot"),
    structs.replace(PROCESS, clock="time:[2]"),
    structs.replace(PROCESS, boot=""),
]
NOWHERE = structs.replace(PROCESS, boot="")
CRASH = LeaseEnd(RescueReason.EXPIRED)


@pytest.mark.parametrize("other", OTHERS)
def test_a_lease_on_another_clock_is_overdue_once_it_was_watched_unchanged_for_its_ttl(
    tmp_path: Path, other: ProcessIdentity
) -> None:
    async def act(at: Scene) -> None:
        judge = store_on(tmp_path / "jobs.db", at.clock, process=other)
        active = await at.running()
        at.advance(TTL * 10)
        assert await judge.expired(10) == ()
        (view,) = await judge.workers()
        assert view.overdue == pytest.approx(-TTL)
        at.advance(TTL)
        assert await judge.expired(10) == ()
        assert await judge.end_lease(active.lease, CRASH, seen=view.seen) is None
        at.advance(EARLY)
        (view,) = await judge.expired(10)
        assert (view.id, view.holds) == (active.lease, 1)
        assert view.overdue == pytest.approx(EARLY, abs=1e-6)
        assert await judge.end_lease(active.lease, CRASH, seen=view.seen) == CRASH
        assert (await judge.exchange([rescued(active, CRASH)])).answers == (Answer.APPLIED,)
        assert (await at.store.beat([active.lease])).gone == {active.lease}
        await judge.close()

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("other", OTHERS)
def test_a_beat_restarts_the_watch_of_a_lease_by_other_stores(tmp_path: Path, other: ProcessIdentity) -> None:
    async def act(at: Scene) -> None:
        judge = store_on(tmp_path / "jobs.db", at.clock, process=other)
        lease = await at.lease()
        for _ in range(5):
            (view,) = await judge.workers()
            at.advance(TTL / 2)
            await at.store.beat([lease])
            at.advance(TTL / 2 + 1.0)
            assert await judge.end_lease(lease, CRASH, seen=view.seen) is None
            assert await judge.expired(10) == ()
        await judge.close()

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("other", OTHERS)
def test_each_store_object_watches_for_itself(tmp_path: Path, other: ProcessIdentity) -> None:
    async def act(at: Scene) -> None:
        await at.lease()
        first, second = (store_on(tmp_path / "jobs.db", at.clock, process=other) for _ in range(2))
        assert await first.expired(10) == ()
        at.advance(TTL + 1.0)
        assert await second.expired(10) == ()
        assert len(await first.expired(10)) == 1
        await first.close()
        at.advance(1.0)
        assert len(await first.expired(10)) == 1, "what was seen survives a lost connection"
        await first.close()
        await second.close()

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("other", OTHERS[:2])
def test_a_lease_lives_on_under_the_clock_of_its_latest_beat(tmp_path: Path, other: ProcessIdentity) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        rebooted = store_on(tmp_path / "jobs.db", at.clock, process=other)
        opened = at.new_lease()
        assert await at.store.open_lease(opened)
        assert await rebooted.open_lease(opened)
        at.advance(5.0)
        assert (await rebooted.beat([opened.id])).elapsed == pytest.approx(5.0)
        await rebooted.end_lease(opened.id, CRASH)
        assert (await rebooted.beat([lease])).elapsed is None
        at.advance(2.0)
        assert (await rebooted.beat([lease])).elapsed == pytest.approx(2.0)
        at.advance(TTL + EARLY)
        assert [view.id for view in await rebooted.expired(10)] == [lease]
        assert await at.store.expired(10) == ()
        await rebooted.close()

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("other", OTHERS)
def test_an_owner_that_shares_no_clock_with_its_lease_claims_until_it_is_ended(tmp_path: Path, other: ProcessIdentity) -> None:
    async def act(at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(3)))
        lease = await at.lease()
        owner = store_on(tmp_path / "jobs.db", at.clock, process=other)
        at.advance(TTL + 1.0)
        assert len((await owner.exchange((), at.request(lease))).claims) == 1
        assert len((await owner.exchange((), at.request(lease, ids=jobs[1:2]))).claims) == 1
        assert await at.claim(lease) == await at.claim(lease, ids=jobs) == ()
        await owner.end_lease(lease, CRASH)
        assert (await owner.exchange((), at.request(lease))).claims == ()
        await owner.close()

    play(OnFile(tmp_path / "jobs.db"), act)


@pytest.mark.parametrize("other", OTHERS)
def test_limits_are_judged_only_on_the_clock_of_their_lease(tmp_path: Path, other: ProcessIdentity) -> None:
    async def act(at: Scene) -> None:
        judge = store_on(tmp_path / "jobs.db", at.clock, process=other)
        active = await at.running(policy=Policy(timeout=1.0))
        at.advance(TTL * 10)
        move = deadline_exceeded_elsewhere(active, RescueReason.TIMED_OUT, jitter=0.0)
        assert await judge.overdue(10) == ()
        assert (await judge.exchange([move])).answers == (Answer.LOST,)
        assert await at.store.overdue(10) == (OverdueJob(active, "worker", RescueReason.TIMED_OUT, LeaseTiming.of(TTL)),)
        assert await at.settle(move) == (Answer.APPLIED,)
        await judge.close()

    play(OnFile(tmp_path / "jobs.db"), act)


def test_processes_that_do_not_know_their_boot_share_no_clock(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        owner, judge = (store_on(tmp_path / "jobs.db", at.clock, process=NOWHERE) for _ in range(2))
        _, delivered = await at.enqueue(at.new(), at.new())
        lease = at.new_lease(process=NOWHERE)
        assert await owner.open_lease(lease)
        at.advance(TTL * 10)
        assert await judge.expired(10) == ()
        (view,) = await judge.workers()
        assert await judge.end_lease(lease.id, CRASH, seen=view.seen) is None
        assert len((await owner.exchange((), at.request(lease.id, policy=Policy(timeout=1.0)))).claims) == 1
        assert len((await owner.exchange((), at.request(lease.id, ids=[delivered]))).claims) == 1
        at.advance(TTL * 10)
        assert await judge.overdue(10) == ()
        (view,) = await judge.expired(10)
        assert await judge.end_lease(lease.id, CRASH, seen=view.seen) == CRASH
        await owner.close()
        await judge.close()

    play(OnFile(tmp_path / "jobs.db"), act)


def test_jobs_of_a_lease_without_a_row_are_found_and_rescued(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        active, other, prefetched = await at.running(), await at.running(), await at.prefetched()
        sql(tmp_path / "jobs.db", "DELETE FROM holdfast_leases")
        views = {view.id: view for view in await at.store.expired(10)}
        assert set(views) == {active.lease, other.lease, prefetched.lease}
        assert all((view.end, view.holds, view.worker) == (CRASH, 1, "") for view in views.values())
        assert await at.store.workers() == ()
        assert await at.claim(active.lease) == ()
        assert (await at.store.beat([active.lease])).gone == {active.lease}
        assert await at.store.start([(prefetched.id, prefetched.token)]) == {prefetched.id}
        assert await at.settle(done(other)) == (Answer.APPLIED,)
        assert await at.store.end_lease(active.lease, LeaseEnd(RescueReason.CRASHED), seen=views[active.lease].seen) is not None
        assert await at.settle(rescued(active, CRASH), rescued(prefetched, CRASH)) == (Answer.APPLIED, Answer.APPLIED)
        assert await at.state(active.id) is State.AVAILABLE
        assert await at.store.expired(10) == ()

    play(OnFile(tmp_path / "jobs.db"), act)


def test_a_lease_that_cannot_be_read_is_still_one(tmp_path: Path) -> None:
    async def act(at: Scene) -> None:
        ended, alive = await at.running(), await at.running()
        await at.store.end_lease(ended.lease, LeaseEnd(RescueReason.CRASHED))
        sql(tmp_path / "jobs.db", "UPDATE holdfast_leases SET end_reason = '{', process = '', timing = 'x', queues = '7'")
        assert [view.id for view in await at.store.workers()] == [alive.lease]
        (view,) = await at.store.expired(10)
        assert (view.id, view.end) == (ended.lease, CRASH)
        assert await at.store.end_lease(ended.lease, LeaseEnd(RescueReason.CLOSED)) == CRASH
        assert (await at.store.beat([alive.lease])).alive == {alive.lease}

    play(OnFile(tmp_path / "jobs.db"), act)
