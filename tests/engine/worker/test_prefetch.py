"""A worker that claims jobs ahead: none of their code runs before its start is written, and those that never run cost nothing."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import State
from holdfast._core.lifecycle import release
from holdfast._core.prefetch import GATHER_TIME, STARTED_TIME, UNSTARTED_LIMIT, Throughput
from holdfast._core.record import JobRecord
from holdfast._engine.tasks.registry import RunnerKind
from holdfast.errors import StoreUnavailable
from tests.engine.support import LEASE, Bench, Held, enqueue, turns, until

NOTHING = b"{}"
BUSY = Throughput(rate=2000.0, exchange=0.01, start=0.001, full_claims=2)
SLOTS = 4


async def quick() -> None: ...


async def forever() -> None:
    await asyncio.Event().wait()


def blocking() -> None: ...


class Ahead(Bench):
    """A worker with few slots, all of which wait, and jobs claimed ahead of them."""

    def __init__(self, *tasks: Any, slots: int = SLOTS, threads: int = SLOTS) -> None:
        super().__init__(*tasks, slots=slots, threads=threads, prefetch=True)
        self.ahead = self.exchange.ahead

    async def claimed(self, task: str = "quick", jobs: int = 20) -> list[UUID]:
        """Enqueue jobs and claim them ahead; return their ids."""
        made = await self.open(*[(task, NOTHING)] * jobs)
        self.ahead.pace = BUSY
        await self.exchange.step()
        self.ahead.pace = BUSY
        assert len(self.ahead) == jobs
        return made

    async def states(self, jobs: list[UUID]) -> list[State]:
        return [(await self.row(job)).state for job in jobs]

    async def free(self, jobs: list[UUID]) -> list[JobRecord]:
        """Return the rows of jobs that are back in their queue, and check that they paid nothing."""
        rows = [await self.row(job) for job in jobs]
        assert {(row.state, row.attempt, row.crashes, row.failures) for row in rows} == {(State.AVAILABLE, 0, 0, 0)}
        assert all(row.available_at == row.created_at and not row.attempts for row in rows)
        return rows


async def test_two_full_claims_in_a_row_are_followed_by_a_claim_ahead() -> None:
    bench = Ahead(quick)
    await bench.open(*[("quick", NOTHING)] * 400)
    exchange, sizes = bench.memory.exchange, list[int]()

    async def takes_time(*arguments: Any) -> ExchangeAnswer:
        bench.clock.advance(0.002)
        return await exchange(*arguments)

    bench.memory.exchange = takes_time  # type: ignore[method-assign]
    for _ in range(4):
        await bench.exchange.step()
        sizes.append(len(bench.ahead))
        await turns()
    assert "held" not in bench.store.calls
    assert sizes[:2] == [0, 0]
    assert sizes[3] > 50


async def test_code_begins_in_the_order_of_claims_after_one_write_has_started_it() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    assert await bench.states(jobs) == [State.CLAIMED] * 20
    gate = bench.store.hold("start_through", is_back=True)
    step = asyncio.create_task(bench.ahead.step())
    await gate.entered.wait()
    assert bench.reports.begins == []
    gate.opened.set()
    await step
    await turns()
    assert bench.reports.begins == jobs
    assert bench.store.calls.count("start_through") == 1
    await bench.settle()
    rows = [await bench.row(job) for job in jobs]
    assert {(row.state, row.attempt) for row in rows} == {(State.COMPLETED, 1)}


@pytest.mark.virtual_time
async def test_outcomes_are_gathered_for_one_write_while_jobs_are_ahead() -> None:
    bench = Ahead(quick)
    await bench.claimed()
    bench.ahead.pace = structs.replace(BUSY, rate=1000.0)
    before, began = bench.store.calls.count("exchange"), asyncio.get_running_loop().time()
    step = asyncio.create_task(bench.exchange.step())
    await turns()
    assert bench.store.calls.count("exchange") == before
    await step
    assert bench.store.calls.count("exchange") > before
    assert asyncio.get_running_loop().time() - began == pytest.approx(GATHER_TIME)


async def test_a_write_starts_what_the_slots_finish_next_and_no_more() -> None:
    bench = Ahead(forever)
    jobs = await bench.claimed("forever", 100)
    await bench.ahead.step()
    await turns()
    started = round(BUSY.rate * 0.011)
    assert bench.reports.begins == jobs[:SLOTS]
    assert (await bench.states(jobs)).count(State.RUNNING) == started
    await bench.ahead.step()
    assert (await bench.states(jobs)).count(State.RUNNING) == SLOTS + started
    await bench.ahead.step()
    assert (await bench.states(jobs)).count(State.RUNNING) == SLOTS + started


async def test_a_lost_answer_of_a_start_is_asked_for_again_before_any_code_begins() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    bench.store.lose_answer("start_through")
    with pytest.raises(StoreUnavailable):
        await bench.ahead.step()
    await turns()
    assert bench.reports.begins == []
    await bench.ahead.step()
    await turns()
    assert bench.reports.begins == jobs


async def test_s26_jobs_of_a_refused_start_return_free_by_an_audit() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    await bench.memory.void(LEASE.id, 1)
    await bench.ahead.step()
    await turns()
    assert (bench.reports.begins, len(bench.ahead)) == ([], 0)
    bench.exchange.is_closed = True
    await bench.exchange.step()
    await bench.free(jobs)


async def test_after_a_void_jobs_claimed_later_start_under_its_number() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    await bench.memory.void(LEASE.id, 1)
    bench.ahead.voided(1)
    assert len(bench.ahead) == 0
    await bench.exchange.step()
    await bench.exchange.step()
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    bench.ahead.pace = BUSY
    await bench.ahead.step()
    await turns()
    assert bench.reports.begins == jobs


async def test_a_void_in_the_midst_of_a_start_lets_none_of_its_jobs_begin() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    gate = bench.store.hold("start_through", is_back=True)
    step = asyncio.create_task(bench.ahead.step())
    await gate.entered.wait()
    bench.ahead.voided(1)
    gate.opened.set()
    await step
    await turns()
    assert bench.reports.begins == []
    bench.exchange.is_closed = True
    await bench.exchange.step()
    await bench.free(jobs)


async def test_s26_nothing_is_started_between_a_lost_claim_and_the_return_of_its_jobs() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    lost = await bench.open(*[("quick", NOTHING)] * 10)
    bench.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.ahead.step()
    assert await bench.states([*jobs, *lost]) == [State.CLAIMED] * 30
    await bench.exchange.audit()
    await bench.ahead.step()
    assert await bench.states([*jobs, *lost]) == [State.CLAIMED] * 30
    await bench.exchange.step()
    await bench.ahead.step()
    await bench.free(lost)
    assert (bench.asked_for_voids, bench.ahead.wanted()) == ([LEASE.id], 0)
    await bench.memory.void(LEASE.id, 1)
    bench.ahead.voided(1)
    for _ in range(3):
        await bench.exchange.step()
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    bench.ahead.pace = BUSY
    await bench.ahead.step()
    await turns()
    assert sorted(bench.reports.begins) == sorted([*jobs, *lost])[: len(bench.reports.begins)] != []


async def test_s1_jobs_of_a_claim_that_was_voided_before_its_answer_came_do_not_begin() -> None:
    bench = Ahead(quick)
    jobs = await bench.open(*[("quick", NOTHING)] * 10)
    bench.ahead.pace = BUSY
    gate = bench.store.hold("exchange", is_back=True)
    step = asyncio.create_task(bench.exchange.step())
    await gate.entered.wait()
    await bench.memory.void(LEASE.id, 1)
    bench.ahead.voided(1)
    gate.opened.set()
    await step
    await bench.ahead.step()
    await turns()
    assert bench.reports.begins == []
    bench.exchange.is_closed = True
    await bench.exchange.step()
    await bench.free(jobs)


async def test_s26_a_claim_that_arrives_after_its_void_takes_nothing() -> None:
    bench = Ahead(quick)
    await bench.claimed()
    late = await bench.open(*[("quick", NOTHING)] * 10)
    bench.store.delay("exchange")
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    await bench.memory.void(LEASE.id, 1)
    await bench.store.arrive()
    await bench.free(late)


async def test_jobs_that_found_no_slot_for_too_long_return_free() -> None:
    bench = Ahead(forever)
    jobs = await bench.claimed("forever")
    await bench.ahead.step()
    bench.clock.advance(UNSTARTED_LIMIT / 2)
    assert await bench.ahead.step() == pytest.approx(UNSTARTED_LIMIT / 2)
    bench.clock.advance(UNSTARTED_LIMIT / 2)
    await bench.ahead.step()
    bench.exchange.is_closed = True
    await bench.exchange.step()
    await bench.free(jobs[SLOTS:])
    assert await bench.states(jobs[:SLOTS]) == [State.RUNNING] * SLOTS


async def test_l7_a_drain_returns_what_was_claimed_ahead() -> None:
    bench = Ahead(forever)
    jobs = await bench.claimed("forever")
    await bench.ahead.step()
    bench.exchange.close()
    await bench.exchange.step()
    await bench.free(jobs[SLOTS:])
    assert bench.exchange.held == 0


async def test_a_job_claimed_ahead_that_is_cancelled_ends_without_a_run() -> None:
    bench = Ahead(forever)
    jobs = await bench.claimed("forever")
    await bench.ahead.step()
    await turns()
    await bench.memory.request_cancel([jobs[-1], jobs[SLOTS]])
    for job in (jobs[-1], jobs[SLOTS]):
        bench.exchange.cancel(job)
    await bench.settle()
    assert await bench.states([jobs[-1], jobs[SLOTS]]) == [State.CANCELLED] * 2
    assert len(bench.ahead) == 20 - SLOTS - 2
    assert bench.reports.begins == jobs[:SLOTS]


async def test_an_audit_drops_what_another_has_taken_and_settles_what_is_to_be_cancelled() -> None:
    bench = Ahead(forever)
    jobs = await bench.claimed("forever")
    await bench.memory.request_cancel([jobs[2]])
    held = await bench.memory.held(LEASE.id)
    await bench.memory.exchange([release(held[5], code_ran=False)])
    await bench.exchange.audit()
    assert len(bench.ahead) == 18
    await bench.settle()
    assert await bench.states([jobs[2], jobs[5]]) == [State.CANCELLED, State.AVAILABLE]


async def test_jobs_that_waited_for_an_audit_start_at_once_after_it() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    bench.exchange.request_audit()
    await bench.ahead.step()
    bench.ahead.wake.forget()
    await bench.exchange.step()
    assert await bench.ahead.wake.wait(0)
    await bench.ahead.step()
    assert State.RUNNING in await bench.states(jobs)


async def test_s8_past_the_deadline_nothing_begins() -> None:
    bench = Ahead(quick)
    jobs = await bench.claimed()
    bench.clock.advance(26.0)
    await bench.ahead.step()
    await turns()
    assert bench.reports.begins == []
    bench.exchange.is_closed = True
    await bench.exchange.step()
    await bench.free(jobs)


async def test_a_worker_whose_lease_is_lost_forgets_what_it_claimed_ahead() -> None:
    bench = Ahead(quick)
    await bench.claimed()
    bench.lease.lose()
    bench.exchange.close()
    assert len(bench.ahead) == 0
    assert bench.exchange.undelivered == ()


async def test_a_short_claim_ends_claiming_ahead() -> None:
    bench = Ahead(quick)
    await bench.open(*[("quick", NOTHING)] * 5)
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    assert (len(bench.ahead), bench.ahead.wanted()) == (5, 0)


async def test_jobs_for_threads_are_claimed_ahead_together_with_those_for_the_event_loop() -> None:
    bench = Ahead(quick, blocking)
    bench.log.events.off("*", bench.log.all.append)  # a start with listeners is announced by the event loop first
    jobs = await bench.open(*[("quick", NOTHING), ("blocking", NOTHING)] * 20)
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    assert len(bench.ahead) == 40
    while len(bench.ahead) or bench.executor.running:
        await bench.ahead.step()
        await turns()
        await bench.settle()
    assert await bench.states(jobs) == [State.COMPLETED] * 40


async def test_while_a_thread_runs_a_long_handler_no_job_for_threads_is_claimed_ahead_and_they_have_their_turn() -> None:
    held = Held()

    def waits() -> None:
        held.wait_here()

    bench = Ahead(quick, waits)
    await bench.open(("waits", NOTHING))
    await bench.exchange.step()
    await until(lambda: held.come.is_set() and not bench.executor.unbegun)
    bench.clock.advance(2 * STARTED_TIME)
    await enqueue(bench.memory, bench.chance, *[("quick", NOTHING), ("waits", NOTHING)] * 20)
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    assert {claim.job.task for claim in bench.ahead} == {"quick"}
    bench.ahead.pace = BUSY
    await bench.ahead.step()
    await turns()
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    assert (len(bench.ahead), len(bench.executor.running)) == (0, SLOTS)
    held.set()
    await until(lambda: not bench.executor.running)


async def test_jobs_for_the_event_loop_begin_before_earlier_ones_that_wait_for_a_thread() -> None:
    held = Held()

    def waits() -> None:
        held.wait_here()

    bench = Ahead(quick, waits, threads=SLOTS - 1)  # its log listens to starts, so no thread takes a job by itself
    jobs = await bench.open(*[("waits", NOTHING)] * (SLOTS + 2), *[("quick", NOTHING)] * 2)
    bench.ahead.pace = BUSY
    await bench.exchange.step()
    assert len(bench.ahead) == len(jobs)
    bench.ahead.pace = BUSY
    await bench.ahead.step()
    await turns()
    await bench.settle()
    assert await bench.states(jobs[-2:]) == [State.COMPLETED] * 2
    assert bench.executor.count(RunnerKind.THREAD) == SLOTS - 1
    held.set()
    await until(lambda: not bench.executor.running)


async def test_a_short_claim_that_left_out_a_kind_of_handlers_does_not_end_claiming_ahead() -> None:
    bench = Ahead(quick, blocking)
    await bench.open(*[("blocking", NOTHING)] * 20)
    for _ in range(4):  # each second one asks for jobs of the event loop only, and gets none
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
        bench.clock.advance(0.001)
    assert bench.ahead.pace.full_claims >= 2


async def test_threads_take_started_jobs_by_themselves_and_those_that_no_thread_took_for_too_long_return_free() -> None:
    held = Held()

    def waits() -> None:
        held.wait_here()

    bench = Ahead(waits)
    bench.log.events.off("*", bench.log.all.append)  # a start with listeners is announced by the event loop first
    jobs = await bench.claimed("waits")
    await bench.ahead.step()
    await until(lambda: bench.executor.unbegun == len(jobs) - SLOTS)
    assert len(bench.executor.running) == len(jobs)
    assert await bench.ahead.step() == pytest.approx(UNSTARTED_LIMIT)
    bench.clock.advance(UNSTARTED_LIMIT)
    bench.beat()
    await bench.ahead.step()
    assert (bench.executor.unbegun, len(bench.executor.running)) == (0, SLOTS)
    held.set()
    await until(lambda: not bench.executor.running)
    await bench.settle()
    await bench.free(jobs[SLOTS:])
    assert await bench.states(jobs[:SLOTS]) == [State.COMPLETED] * SLOTS


async def test_a_worker_of_threads_claims_ahead_on_a_store_on_which_others_do_not() -> None:
    bench = Bench(blocking, slots=SLOTS)
    await bench.open(*[("blocking", NOTHING)] * 20)
    bench.exchange.ahead.pace = BUSY
    await bench.exchange.step()
    assert len(bench.exchange.ahead) == 20


async def test_a_store_that_gains_nothing_is_not_asked_for_jobs_ahead() -> None:
    bench = Bench(quick, slots=SLOTS)
    await bench.open(*[("quick", NOTHING)] * 20)
    bench.exchange.ahead.pace = BUSY
    await bench.exchange.step()
    assert (len(bench.exchange.ahead), len(bench.executor.running)) == (0, SLOTS)
