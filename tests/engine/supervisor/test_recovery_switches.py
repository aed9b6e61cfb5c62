"""A kind of recovery that is switched off moves nothing, is reported, and delays nothing else."""

import pytest
from msgspec import structs

from holdfast._core.job import NewJob, State
from holdfast._core.policy import Policy
from holdfast._engine.supervisor.recovery import LEASES_PER_STEP
from holdfast.settings import RecoverySwitches
from tests.engine.supervisor.test_recovery import Site
from tests.engine.support import LEASE, OTHER, TIMING


@pytest.mark.parametrize(
    ("off", "states"), [("claimed", (State.RUNNING, State.CLAIMED)), ("running", (State.CLAIMED, State.RUNNING))]
)
async def test_a_lost_workers_jobs_of_a_kind_that_is_off_stay_and_are_counted_with_each_pass(
    off: str, states: tuple[State, State]
) -> None:
    site = Site(switches=structs.replace(RecoverySwitches(), **{off: False}))
    await site.claim(2, prefetch=3)
    await site.in_contact(TIMING.ttl + 1)
    moved, kept = {State.RUNNING: 2, State.CLAIMED: 3}[states[0]], {State.RUNNING: 2, State.CLAIMED: 3}[states[1]]
    assert len(await site.recovery.step()) == moved
    assert await site.recovery.step() == []
    assert site.log.of("recovery.skipped") == [{off: kept}] * 2
    assert [hold.state for hold in await site.memory.held(LEASE.id, 10)] == [states[1]] * kept


async def test_a_pass_that_leaves_nothing_reports_nothing() -> None:
    site = Site(switches=RecoverySwitches(claimed=False, overrun=False))
    await site.claim(2)
    await site.in_contact(TIMING.ttl + 1)
    assert len(await site.recovery.step()) == 2
    assert site.log.of("recovery.skipped") == []


async def test_a_job_past_its_limits_stays_with_its_worker_while_that_kind_is_off() -> None:
    site = Site(switches=RecoverySwitches(overrun=False))
    (job,) = await site.claim(1, policy=Policy(timeout=60.0))
    for _ in range(240):
        await site.in_contact(2)
        await site.memory.beat([LEASE.id])
    assert await site.recovery.step() == []
    await site.in_contact(TIMING.beat + TIMING.margin)
    await site.memory.beat([LEASE.id])
    assert await site.recovery.step() == []
    assert site.log.of("recovery.skipped")[-1] == {"overrun": 1}
    assert (await site.row(job)).state is State.RUNNING


@pytest.mark.parametrize("is_on", [False, True])
async def test_a_job_that_no_worker_started_in_time_is_settled_only_while_that_kind_is_on(is_on: bool) -> None:
    site = Site(switches=RecoverySwitches(expired=is_on))
    job = NewJob(id=site.chance.uuid7(), task="t", payload=b"{}", policy=Policy(), expires_in=1.0)
    await site.memory.enqueue(site.chance.uuid4(), [job])
    site.clock.advance(2)
    assert await site.recovery.expire() == int(is_on)
    assert site.log.of("job.expired") == [{"job": job.id, "task": "t"}] * is_on


async def test_leases_whose_jobs_are_left_do_not_delay_the_recovery_of_others() -> None:
    site = Site(switches=RecoverySwitches(claimed=False))
    for number in range(LEASES_PER_STEP):
        lease = structs.replace(LEASE, id=site.chance.uuid4(), worker=f"left-{number}")
        await site.claim(0, lease, prefetch=1)
    await site.in_contact(TIMING.ttl + 1)
    assert await site.recovery.step() == []
    await site.claim(1, OTHER)
    await site.in_contact(TIMING.ttl + 1)
    (rescued,) = await site.recovery.step()
    assert rescued.worker == OTHER.worker
    assert site.log.of("recovery.skipped") == [{"claimed": LEASES_PER_STEP}] * 2


async def test_leases_whose_jobs_were_moved_by_hand_are_not_remembered() -> None:
    site = Site(switches=RecoverySwitches(claimed=False))
    await site.claim(0, prefetch=1)
    await site.in_contact(TIMING.ttl + 1)
    await site.recovery.step()
    assert site.recovery._leases_left == {LEASE.id}
    site.recovery._off = frozenset()
    assert len(await site.recovery.step()) == 1
    assert site.recovery._leases_left == set()
