"""Rows that an operator or a later release has changed: an unreadable row hides no other, and its job does not run twice."""

import pytest

from holdfast._core.answers import Answer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.policy import CrashPolicy, Policy
from holdfast.testing.contracts.scene import Scene, play, rescued
from tests.stores.postgres_concurrent_sessions import Stage
from tests.stores.postgres_databases import Home

CRASH = LeaseEnd(RescueReason.CRASHED)


def test_l11_many_unreadable_active_jobs_hide_no_readable_one_behind_them(home: Home) -> None:
    async def act(at: Scene) -> None:
        ids = await at.enqueue(*(at.new() for _ in range(7)))
        lease = await at.lease()
        await at.claim(lease, 7)
        home.sql("UPDATE holdfast.active SET state = 'odd' WHERE id = ANY(%s)", list(ids[:5]))
        assert [active.id for active in await at.store.held(lease, 2)] == [*ids[5:]]
        assert [active.id for active in await at.store.held(lease, 1)] == [ids[5]]

    play(Stage(home), act)


@pytest.mark.parametrize("policy", ['{"on_crash":"of a later release"}', '{"on_crash":7,"max_crashes":9}', "odd", "", "[]"])
def test_s16_a_job_whose_crash_policy_cannot_be_read_is_held_when_its_worker_dies(home: Home, policy: str) -> None:
    async def act(at: Scene) -> None:
        active = await at.running(policy=Policy(on_crash=CrashPolicy.HOLD))
        home.sql("UPDATE holdfast.active SET policy = %s", policy)
        await at.store.end_lease(active.lease, CRASH)
        (seen,) = await at.store.held(active.lease)
        assert seen.policy.on_crash is CrashPolicy.HOLD
        assert await at.settle(rescued(seen, CRASH)) == (Answer.APPLIED,)
        assert await at.state(active.id) is State.HELD

    play(Stage(home), act)
