"""A run works off batch after batch; it ends, drains and is recovered without leaving a row without an owner."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest

from holdfast import Batch, Snooze, State, SyncBatch
from holdfast._engine.rows.run import FRESH, FRESH_PART, RELEASE_WITHIN, SAVED_FENCES, SLICE
from holdfast._engine.runners.running import Stop
from holdfast._ports.table import Findings, Refusal
from holdfast.errors import StoreUnavailable
from holdfast.rows.postgres.inspection import OWNER_LENGTH
from tests.engine.rows.rows_worker import RowsWorker
from tests.engine.rows.support import FENCE_KNOWN, die, finish_all, next_attempt, result
from tests.engine.support import LoopClock, forever, turns
from tests.event_loops import beside, run


async def test_a_run_works_off_batches_until_no_row_is_due() -> None:
    seen = list[tuple[int, list[Any], list[Any]]]()

    async def handler(batch: Batch) -> None:
        seen.append((len(batch), batch.keys, [row["status"] for row in batch.rows]))
        assert await batch.done(batch.keys) == batch.keys
        assert batch.open == []

    worker = RowsWorker(handler, count=7)
    row = await worker.run_once()
    assert seen == [(3, [1, 2, 3], ["busy"] * 3), (3, [4, 5, 6], ["busy"] * 3), (1, [7], ["busy"])]
    assert worker.ids("gone") == [1, 2, 3, 4, 5, 6, 7]
    assert row.state is State.COMPLETED
    assert result(row) == {"batches": 3, "done": 7, "failed": 0, "retried": 0, "left": 0, "lost": 0}
    assert (row.message or "").startswith("batch 3, 6 rows")
    assert "release" not in worker.table.calls, "a finished batch needs no other statement"


async def test_rows_that_a_handler_leaves_open_are_released_at_its_end() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        await batch.retry(batch.keys[1:2])
        assert batch.open == batch.keys[2:]

    worker = RowsWorker(handler, count=3)
    row = await worker.run_once()
    assert (worker.ids("gone"), worker.ids("busy")) == ([1, 2, 3], [])
    assert result(row) == {"batches": 3, "done": 3, "failed": 0, "retried": 2, "left": 1, "lost": 0}


def test_rows_whose_claim_or_release_is_refused_are_reported_with_their_run() -> None:
    async def handler(batch: Batch) -> None:
        worker.plain.refusals = [Refusal("release", (1,), "row is frozen")]
        await batch.done(batch.keys[1:])

    async def test() -> None:
        worker.plain.refusals = [
            Refusal("claim", (7,), "no"),
            Refusal("claim", (8,), "not this one"),
            Refusal("other", (9,), "no"),
        ]
        await worker.run_once()
        found = [{**each, "job": each["job"] is not None} for each in worker.log.of("rows.refused")]
        shared = {"rows": "pastes", "job": True}
        assert found[:3] == [
            {**shared, "verb": "claim", "count": 2, "keys": "7, 8", "error": "no"},
            {**shared, "verb": "other", "count": 1, "keys": "9", "error": "no"},
            {**shared, "verb": "release", "count": 1, "keys": "1", "error": "row is frozen"},
        ]

    worker = RowsWorker(handler, count=3)
    run(test())


async def test_a_handler_of_rows_may_return_any_outcome() -> None:
    async def handler(batch: Batch) -> Snooze:
        await batch.done(batch.keys[:1])
        return Snooze("1h")

    worker = RowsWorker(handler, count=3)
    row = await worker.run_once()
    assert (row.state, worker.ids("gone"), worker.ids("new")) == (State.SCHEDULED, [1], [2, 3])


@pytest.mark.parametrize("options", FENCE_KNOWN)
async def test_s3_after_a_kill_the_next_attempt_first_releases_the_rows_of_the_dead_worker(
    options: dict[str, Any],
) -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        begun.set()
        await forever()

    worker = RowsWorker(handler, **options)
    (job,) = await worker.start()
    await begun.wait()
    other = await die(worker, **options)
    beside(other._report())
    assert worker.ids("busy") == [2, 3]
    worker.table.calls.clear()
    await other.exchange.step()
    row = await other.finish([job])
    known = SAVED_FENCES if options else 1
    assert [each for each in worker.table.calls if each != "stamps"][: known + 2] == [
        "inspect",
        *["release"] * known,
        "claim",
    ]
    assert (row.state, row.crashes, worker.ids("gone")) == (State.COMPLETED, 1, [1, 2, 3])
    assert result(row)["done"] == 2, "the last count of the killed worker is lost with it"


@pytest.mark.parametrize("options", FENCE_KNOWN)
async def test_s3_the_next_attempt_releases_the_batch_of_the_dead_worker_also_when_it_was_a_later_one(
    options: dict[str, Any],
) -> None:
    begun, batches = asyncio.Event(), list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) <= SAVED_FENCES + 1:
            await batch.done(batch.keys)
            return
        begun.set()
        await forever()

    count = 3 * (SAVED_FENCES + 2)
    worker = RowsWorker(handler, count=count, **options)
    (job,) = await worker.start()
    await begun.wait()
    assert worker.ids("busy") == [count - 2, count - 1, count]
    other = await die(worker, count=count, **options)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, len(worker.ids("gone"))) == (State.COMPLETED, 1, count)


async def test_l2_a_run_ends_once_past_the_batch_of_its_dead_worker_so_that_crashes_do_not_add_up_over_hours() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    worker = RowsWorker(handler, count=7)
    (job,) = await worker.start()
    await begun.wait()
    other = await die(worker, count=7)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, result(row)["batches"]) == (State.COMPLETED, 1, 3)
    assert (worker.ids("gone"), worker.ids("new")) == ([1, 2, 3], [4, 5, 6, 7])
    (after,) = await other.start()
    await other.until_ended(2)
    await other.settle()
    assert (result(await other.row(after))["batches"], worker.ids("gone")) == (2, [1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("options", FENCE_KNOWN[1:])
async def test_the_next_attempt_releases_a_claim_with_a_known_fence_whose_answer_was_lost(
    options: dict[str, Any],
) -> None:
    worker = RowsWorker(finish_all, **options)
    worker.table.lose_answer("claim")
    (job,) = await worker.start()
    row = await worker.finish([job])
    assert (row.state, worker.ids("busy"), worker.ids("gone")) == (State.SCHEDULED, [1, 2, 3], [])
    worker.clock.advance(5)
    worker.beat()
    await worker.memory.beat([row.lease or UUID(int=1)])
    await worker.exchange.step()
    await worker.until_ended(2)
    await worker.settle()
    assert ((await worker.row(job)).state, worker.ids("gone")) == (State.COMPLETED, [1, 2, 3])


async def test_s2_an_owner_is_named_after_the_claim_which_no_store_makes_twice() -> None:
    owners = list[str]()

    async def handler(batch: Batch) -> None:
        claim = batch.job.token.claim
        assert claim is not None
        owners.append(batch.rows[0]["holder"])
        assert owners[-1] == f"{batch.job.id.hex}.1.{claim.hex[:8]}.{len(owners)}"
        assert len(owners[-1]) <= OWNER_LENGTH
        await batch.done(batch.keys)

    row = await RowsWorker(handler, count=6, owner="holder").run_once()
    assert (row.state, len(owners), len(set(owners))) == (State.COMPLETED, 2, 2)


async def test_a_database_that_is_away_costs_a_run_no_attempt() -> None:
    worker = RowsWorker(finish_all)
    worker.table.is_out = True
    row = await worker.run_once()
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 0, 0)
    assert worker.log.of("store.unavailable")[0]["operation"] == "rows.pastes"


@pytest.mark.parametrize("is_thread", [False, True])
async def test_a_database_that_goes_away_under_a_handler_costs_its_run_no_attempt(is_thread: bool) -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        raise StoreUnavailable("transaction: its connection was closed before its block ended")

    def in_thread(batch: SyncBatch) -> None:
        batch.done(batch.keys[:1])
        raise StoreUnavailable("transaction: its connection was closed before its block ended")

    worker = RowsWorker(in_thread if is_thread else handler)
    row = await worker.run_once()
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 0, 0)
    assert (worker.ids("gone"), worker.ids("new")) == ([1], [2, 3])
    assert worker.log.of("store.unavailable")[0]["operation"] == "rows.pastes"


async def test_the_next_attempt_releases_rows_that_could_not_be_released() -> None:
    async def handler(batch: Batch) -> None:
        worker.table.fail("release", 2)

    worker = RowsWorker(handler)
    row = await worker.run_once()
    assert (row.state, worker.ids("busy")) == (State.SCHEDULED, [1, 2, 3])
    assert json.loads(row.checkpoint or b"{}")["marks"]


@pytest.mark.virtual_time
async def test_the_error_of_a_handler_is_recorded_also_when_releasing_its_open_rows_takes_long() -> None:
    async def handler(batch: Batch) -> None:
        raise ValueError("no")

    worker = RowsWorker(handler)
    gate = worker.table.hold("release")
    jobs = await worker.start()
    await gate.entered.wait()
    await LoopClock().sleep(10 * RELEASE_WITHIN)
    gate.opened.set()
    row = await worker.finish(jobs)
    assert row.error is not None
    assert (row.failures, row.error.message, worker.ids("new")) == (1, "no", [1, 2, 3])


async def test_a_table_that_does_not_fit_fails_the_run_before_anything_is_claimed() -> None:
    worker = RowsWorker(finish_all)
    worker.plain.findings = Findings(problems=("there is no column 'since'",))
    row = await worker.run_once()
    assert row.error is not None
    assert (row.failures, row.error.message) == (1, "rows pastes: there is no column 'since'")
    assert "claim" not in worker.table.calls


async def test_l7_a_drain_between_two_batches_ends_the_run_and_another_worker_goes_on() -> None:
    async def handler(batch: Batch) -> None:
        worker.executor.request_drain()
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=9)
    row = await worker.run_once()
    assert (row.state, row.failures, worker.ids("gone")) == (State.AVAILABLE, 0, [1, 2, 3])
    assert worker.ids("busy") == []
    assert json.loads(row.checkpoint or b"{}")["so_far"]["done"] == 3


async def test_l7_a_run_that_starts_after_the_drain_began_claims_nothing() -> None:
    worker = RowsWorker(finish_all)
    worker.executor.request_drain()
    row = await worker.run_once()
    assert (row.state, row.failures, worker.ids("new")) == (State.AVAILABLE, 0, [1, 2, 3])
    assert "claim" not in worker.table.calls


async def test_a_long_run_returns_to_the_end_of_its_queue_and_keeps_its_counts() -> None:
    async def handler(batch: Batch) -> None:
        worker.clock.advance(SLICE / 2)
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=9)
    (job,) = await worker.start()
    row = await worker.finish([job])
    assert (row.state, worker.ids("gone")) == (State.AVAILABLE, [1, 2, 3, 4, 5, 6])
    worker.beat()
    await worker.memory.beat([UUID(int=1)])
    await worker.exchange.step()
    await worker.until_ended(2)
    await worker.settle()
    row = await worker.row(job)
    assert (row.state, result(row)["batches"], result(row)["done"]) == (State.COMPLETED, 3, 9)


@pytest.mark.parametrize(
    ("reason", "state"), [(Stop.CANCELLED, State.CANCELLED), (Stop.DRAINED, State.AVAILABLE), (Stop.LATE, State.AVAILABLE)]
)
async def test_a_handler_that_is_stopped_inside_a_batch_releases_its_open_rows(reason: Stop, state: State) -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        begun.set()
        await forever()

    worker = RowsWorker(handler)
    jobs = await worker.start()
    await begun.wait()
    if reason is Stop.CANCELLED:
        await worker.memory.request_cancel(jobs)
    worker.executor.stop(jobs[0], reason)
    row = await worker.finish(jobs)
    assert (row.state, worker.ids("gone"), worker.ids("new")) == (state, [1], [2, 3])


async def test_a_claim_that_is_under_way_when_the_run_is_stopped_is_released() -> None:
    worker = RowsWorker(finish_all)
    gate = worker.table.hold("claim", is_back=True)
    jobs = await worker.start()
    await gate.entered.wait()
    worker.executor.stop(jobs[0], Stop.DRAINED)
    await turns()
    assert worker.ids("busy") == [1, 2, 3]
    gate.opened.set()
    row = await worker.finish(jobs)
    assert (row.state, worker.ids("new"), worker.ids("gone")) == (State.AVAILABLE, [1, 2, 3], [])


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_s8_a_thread_that_is_stopped_while_a_claim_is_under_way_starts_nothing(owner: str | None) -> None:
    begun = list[int]()

    def handler(batch: SyncBatch) -> None:
        begun.append(len(batch))
        batch.done(batch.keys)

    worker = RowsWorker(handler, owner=owner)
    gate = worker.table.hold("claim", is_back=True)
    jobs = await worker.start()
    await gate.entered.wait()
    worker.executor.stop(jobs[0], Stop.LATE)
    gate.opened.set()
    row = await worker.finish(jobs)
    assert (begun, row.state, worker.ids("new")) == ([], State.AVAILABLE, [1, 2, 3])


async def test_a_run_that_is_stopped_twice_releases_its_rows_once() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    worker = RowsWorker(handler)
    jobs = await worker.start()
    await begun.wait()
    gate = worker.table.hold("release")
    worker.executor.stop(jobs[0], Stop.DRAINED)
    await gate.entered.wait()
    worker.executor.stop(jobs[0], Stop.LATE)
    await turns()
    gate.opened.set()
    row = await worker.finish(jobs)
    assert (row.state, worker.ids("new"), worker.table.calls.count("release")) == (State.AVAILABLE, [1, 2, 3], 1)


@pytest.mark.virtual_time
async def test_s8_a_run_ends_although_its_claim_is_not_answered() -> None:
    worker = RowsWorker(finish_all)
    gate = worker.table.hold("claim")
    jobs = await worker.start()
    await gate.entered.wait()
    started = asyncio.get_running_loop().time()
    worker.executor.stop(jobs[0], Stop.DRAINED)
    row = await worker.finish(jobs)
    assert asyncio.get_running_loop().time() - started >= RELEASE_WITHIN
    assert (row.state, worker.ids("new")) == (State.AVAILABLE, [1, 2, 3])


@pytest.mark.virtual_time
async def test_s8_a_run_ends_although_its_database_does_not_answer() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    worker = RowsWorker(handler)
    jobs = await worker.start()
    await begun.wait()
    worker.table.hold("release")
    started = asyncio.get_running_loop().time()
    worker.executor.stop(jobs[0], Stop.DRAINED)
    row = await worker.finish(jobs)
    assert asyncio.get_running_loop().time() - started >= RELEASE_WITHIN
    assert (row.state, worker.ids("busy")) == (State.SCHEDULED, [1, 2, 3]), "the next attempt gives them back"


async def test_a_later_batch_whose_answer_was_lost_is_released_and_earlier_ones_are_counted() -> None:
    async def handler(batch: Batch) -> None:
        if worker.table.calls.count("claim") == 1:
            worker.table.lose_answer("claim")
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=6, owner="holder")
    (job,) = await worker.start()
    row = await worker.finish([job])
    assert (row.state, worker.ids("busy"), worker.ids("gone")) == (State.SCHEDULED, [4, 5, 6], [1, 2, 3])
    row = await next_attempt(worker, job)
    assert (row.state, worker.ids("gone"), result(row)["done"]) == (State.COMPLETED, [1, 2, 3, 4, 5, 6], 6)


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_finished_rows_are_counted_also_when_the_run_fails_before_it_saves_the_count(owner: str | None) -> None:
    begun = list[Batch]()

    async def handler(batch: Batch) -> None:
        begun.append(batch)
        if len(begun) == 3:
            await batch.done(batch.keys[:1])
            raise LookupError("no bucket")
        await batch.done(batch.keys)

    worker = RowsWorker(handler, count=9, owner=owner)
    (job,) = await worker.start()
    assert (await worker.finish([job])).failures == 1
    row = await next_attempt(worker, job)
    assert (row.state, result(row)["done"], result(row)["batches"]) == (State.COMPLETED, 9, 5)


@pytest.mark.parametrize("stale_after", ["2h", "1s"])
async def test_stamps_that_were_saved_ahead_are_used_for_a_short_time_only(stale_after: str) -> None:
    good_for = min(FRESH, FRESH_PART * (1.0 if stale_after == "1s" else 7200.0))
    saved = list[int]()

    async def handler(batch: Batch) -> None:
        saved.append(worker.table.calls.count("stamps"))
        await batch.done(batch.keys)
        worker.clock.advance(0.51 * good_for)

    worker = RowsWorker(handler, count=12, tells_stamps=True, stale_after=stale_after)
    row = await worker.run_once()
    assert (row.state, saved) == (State.COMPLETED, [1, 1, 2, 2])


@pytest.mark.parametrize("step", [3 * 3600.0, -1.0])
async def test_stamps_that_were_saved_before_the_machine_slept_or_its_clock_was_set_are_not_used(step: float) -> None:
    async def handler(batch: Batch) -> None:
        ages.append(worker.clock.wall() - batch.rows[0]["since"])
        await batch.done(batch.keys)
        worker.clock.step_wall(step)

    ages, worker = list[float](), RowsWorker(handler, count=6, tells_stamps=True)
    assert (await worker.run_once()).state is State.COMPLETED
    assert ages == [pytest.approx(0.0, abs=0.001)] * 2


async def test_a_stamp_that_was_not_saved_ahead_is_saved_with_the_others() -> None:
    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    begun = asyncio.Event()
    worker = RowsWorker(handler, tells_stamps=True)
    worker.plain.refuses_stamps = True
    (job,) = await worker.start()
    await begun.wait()
    known = json.loads((await worker.row(job)).checkpoint or b"{}")["marks"]
    assert len(known) == SAVED_FENCES
    other = await die(worker, tells_stamps=True)
    beside(other._report())
    worker.table.calls.clear()
    await other.exchange.step()
    row = await other.finish([job])
    assert worker.table.calls[: SAVED_FENCES + 1] == ["inspect", *["release"] * SAVED_FENCES]
    assert (row.state, worker.ids("gone")) == (State.COMPLETED, [1, 2, 3])
