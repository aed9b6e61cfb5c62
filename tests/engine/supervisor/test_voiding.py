"""Jobs that a worker has claimed and does not start are back in their queues soon, and it can start none of them any more."""

import asyncio
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State
from holdfast._engine import messages
from holdfast.errors import ConfigurationError
from holdfast.settings import RecoverySwitches, Settings
from tests.engine.machines import MemoryChild
from tests.engine.supervisor.test_supervisor import HELLO, Fleet, answer_pings, passing
from tests.engine.support import SETTINGS, TIMING, turns

CLAIMED_WITHIN = 2 * TIMING.beat
OPERATION = 0.1


async def blocked(fleet: Fleet, settings: Settings = SETTINGS) -> tuple[MemoryChild, UUID, list[UUID]]:
    """Return a worker that runs one job, has claimed three more, and does not answer the ping that it has just got."""
    child = await fleet.spawned()
    child.far.say(structs.replace(HELLO, settings=settings))
    leased = await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    await turns()
    jobs = await fleet.claim(leased, prefetch=3)
    await child.far.hear(messages.Ping)
    return child, leased.lease, jobs


async def states(fleet: Fleet, jobs: list[UUID]) -> list[State]:
    return [(await fleet.row(job)).state for job in jobs]


@pytest.mark.virtual_time
async def test_l16_jobs_that_a_blocked_worker_claimed_are_back_within_the_bound() -> None:
    fleet = Fleet(prefetch=True)
    _, lease, jobs = await blocked(fleet)
    await passing(CLAIMED_WITHIN - OPERATION)
    assert await states(fleet, jobs) == [State.RUNNING] + [State.CLAIMED] * 3
    await passing(2 * OPERATION)
    assert await states(fleet, jobs) == [State.RUNNING] + [State.AVAILABLE] * 3
    rows = [await fleet.row(job) for job in jobs[1:]]
    assert {(row.attempt, row.crashes, row.available_at == row.created_at) for row in rows} == {(0, 0, True)}
    assert {job for hint in fleet.transport.published for job in hint.ids} == set(jobs[1:])
    assert [fields["reason"] for fields in fleet.log.of("job.rescued")] == ["not_started"] * 3
    assert not await fleet.memory.start_through(lease, 10**6, 0)


@pytest.mark.virtual_time
async def test_the_worker_receives_the_void_after_its_jobs_are_back() -> None:
    fleet = Fleet(prefetch=True)
    child, _, jobs = await blocked(fleet)
    gate = fleet.store.hold("exchange", is_back=True)
    await asyncio.wait_for(gate.entered.wait(), 2 * CLAIMED_WITHIN)
    assert not [each for each in child.far.received() if isinstance(each, messages.ClaimsVoided)]
    gate.opened.set()
    assert await child.far.hear(messages.ClaimsVoided) == messages.ClaimsVoided(1)
    assert await states(fleet, jobs[1:]) == [State.AVAILABLE] * 3


@pytest.mark.parametrize("verb", ["void", "held", "exchange"])
@pytest.mark.virtual_time
async def test_a_void_with_a_lost_answer_is_repeated_under_the_next_number(verb: str) -> None:
    fleet = Fleet(prefetch=True)
    child, lease, jobs = await blocked(fleet)
    fleet.store.lose_answer(verb)
    assert await child.far.hear(messages.ClaimsVoided) == messages.ClaimsVoided(2)
    assert await states(fleet, jobs[1:]) == [State.AVAILABLE] * 3
    assert await fleet.memory.start_through(lease, 1, 2)


@pytest.mark.virtual_time
async def test_moves_of_a_void_that_arrive_late_take_nothing_that_the_worker_may_start() -> None:
    fleet = Fleet(prefetch=True)
    child, lease, jobs = await blocked(fleet)
    fleet.store.delay("exchange")
    await child.far.hear(messages.ClaimsVoided)
    beside = asyncio.create_task(answer_pings(child))
    await passing(1.0)
    assert await fleet.memory.counts() == {("", State.RUNNING): 1, ("", State.AVAILABLE): 3}
    (held,) = await fleet.memory.held(lease)
    assert held.id == jobs[0]
    await fleet.store.arrive()
    assert await fleet.memory.counts() == {("", State.RUNNING): 1, ("", State.AVAILABLE): 3}
    beside.cancel()


@pytest.mark.virtual_time
async def test_a_claim_that_lands_after_the_void_is_returned_by_the_next_one() -> None:
    fleet = Fleet(prefetch=True)
    child, lease, _ = await blocked(fleet)
    assert await child.far.hear(messages.ClaimsVoided) == messages.ClaimsVoided(1)
    late = await fleet.claim(messages.LeaseGranted(lease, "", 0.0), 0, prefetch=4)
    assert await child.far.hear(messages.ClaimsVoided) == messages.ClaimsVoided(2)
    assert await states(fleet, late) == [State.AVAILABLE] * 4


@pytest.mark.virtual_time
async def test_a_worker_that_lost_the_answer_of_a_claim_is_sent_a_void_although_it_answers_pings() -> None:
    fleet = Fleet(prefetch=True)
    child, leased = await fleet.ready()
    jobs = await fleet.claim(leased, prefetch=3)
    beside = asyncio.create_task(answer_pings(child))
    child.far.say(messages.ClaimsLost())
    await passing(CLAIMED_WITHIN + OPERATION)
    assert await states(fleet, jobs) == [State.RUNNING] + [State.AVAILABLE] * 3
    assert await fleet.memory.start_through(leased.lease, 1, 1)
    beside.cancel()


@pytest.mark.virtual_time
async def test_a_worker_that_answers_keeps_what_it_claimed() -> None:
    fleet = Fleet(prefetch=True)
    child, leased = await fleet.ready()
    jobs = await fleet.claim(leased, prefetch=3)
    beside = asyncio.create_task(answer_pings(child))
    await passing(10 * CLAIMED_WITHIN)
    assert await states(fleet, jobs) == [State.RUNNING] + [State.CLAIMED] * 3
    assert "void" not in fleet.store.calls
    beside.cancel()


@pytest.mark.virtual_time
async def test_with_recovery_of_claimed_jobs_off_they_stay_and_are_reported() -> None:
    fleet = Fleet(prefetch=True)
    _, _, jobs = await blocked(fleet, structs.replace(SETTINGS, recovery=RecoverySwitches(claimed=False)))
    await passing(2 * CLAIMED_WITHIN + 1.0)
    assert await states(fleet, jobs) == [State.RUNNING] + [State.CLAIMED] * 3
    assert fleet.log.of("recovery.skipped") == [{"claimed": 3}] * 2


def test_claimed_within_is_two_beats_unless_given_and_never_shorter() -> None:
    assert Settings.of("memory://").void_after == 12.0
    assert Settings.of("memory://", claimed_within="20s").void_after == 20.0
    with pytest.raises(ConfigurationError) as refused:
        Settings.of("memory://", ttl="30s", beat="16s", claimed_within="31s")
    assert [problem.partition(" is broken")[0] for problem in refused.value.problems] == [
        "ttl >= 2 x beat",
        "ttl - margin >= 2 x beat",
        "margin >= beat / 2",
        "claimed_within >= 2 x beat",
    ]
