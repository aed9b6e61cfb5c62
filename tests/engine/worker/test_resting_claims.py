"""A worker keeps claims that it cannot start yet, so that their jobs keep their positions in the queue."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from holdfast._core import lifecycle
from holdfast._core.job import Claim, State
from holdfast._core.requests import ClaimRequest
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.resting_claims import RestingClaims
from holdfast.errors import StoreUnavailable
from holdfast.testing.clock import FakeClock
from tests.engine.support import LEASE, Bench, define, turns
from tests.engine.support import claim as claim_of

NOTHING = b"{}"


async def quick() -> None: ...


def released(number: int, pause: float) -> FinishedRun:
    claim = claim_of(define(quick), job=UUID(int=number))
    return FinishedRun(claim, lifecycle.release(claim.job, code_ran=False), pause)


def jobs(ended: Iterable[FinishedRun]) -> list[int]:
    return [each.claim.job.id.int for each in ended]


def test_each_claim_waits_for_its_own_pause() -> None:
    clock = FakeClock()
    resting = RestingClaims(10, clock.monotonic)
    assert resting.left() == float("inf")
    for number, pause in ((1, 5.0), (2, 1.0), (3, 1.0)):
        resting.add(released(number, pause))
    assert (resting.left(), resting.rested(is_closed=False), len(resting)) == (1.0, [], 3)
    clock.advance(1.0)
    assert jobs(resting.rested(is_closed=False)) == [2, 3]
    assert (resting.left(), jobs(resting)) == (4.0, [1])
    clock.advance(9.0)
    assert resting.left() == 0.0
    assert jobs(resting.rested(is_closed=False)) == [1]


def test_a_worker_that_can_start_nothing_does_not_hoard_claims() -> None:
    resting = RestingClaims(2, FakeClock().monotonic)
    for number in range(1, 5):
        resting.add(released(number, 5.0))
    assert jobs(resting.rested(is_closed=False)) == [1, 2]
    assert jobs(resting.rested(is_closed=True)) == [3, 4]


async def test_l10_a_claim_that_cannot_start_is_kept_and_then_returns_to_its_queue_position() -> None:
    bench = Bench(quick, slots=1)
    (job, other) = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    (claim,) = await claims_of(bench)
    bench.exchange.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False), 2.0))
    assert [move.job for move in bench.exchange.undelivered] == [job], "the supervisor knows it, in case this worker dies"
    assert not bench.exchange.is_delivered
    for _ in range(3):
        assert await bench.exchange.step() <= 2.0
        bench.exchange.request_audit()
        await turns()
    row = await bench.row(job)
    assert (row.token, row.state) == (claim.job.token, State.RUNNING), "the audit does not release it"
    assert (await bench.row(other)).state is State.COMPLETED, "other jobs can use its slot"
    bench.clock.advance(2.0)
    bench.beat()
    bench.exchange.close()
    await bench.exchange.step()
    row = await bench.row(job)
    assert (row.state, row.attempt, row.available_at) == (State.AVAILABLE, 0, row.created_at)
    assert bench.exchange.is_delivered


@pytest.mark.parametrize("is_closed", [False, True])
async def test_l7_a_drain_does_not_wait_for_claims_that_cannot_start(is_closed: bool) -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    (claim,) = await claims_of(bench)
    bench.exchange.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False), 60.0))
    if is_closed:
        bench.exchange.close()
    await bench.exchange.step()
    assert (await bench.row(job)).state is (State.AVAILABLE if is_closed else State.RUNNING)


async def test_a_kept_claim_is_released_although_the_store_was_unreachable() -> None:
    bench = Bench(quick)
    (job,) = await bench.open(("quick", NOTHING))
    (claim,) = await claims_of(bench)
    bench.exchange.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False), 1.0))
    bench.clock.advance(1.0)
    bench.store.fail("exchange")
    bench.exchange.close()
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.exchange.step()
    assert (await bench.row(job)).state is State.AVAILABLE


async def claims_of(bench: Bench) -> tuple[Claim, ...]:
    """Claim one job as the exchange does, and start nothing."""
    request = ClaimRequest(lease=LEASE.id, claim=bench.chance.uuid4(), tasks=bench.registry.policies(), limit=1)
    return (await bench.memory.exchange((), request)).claims
