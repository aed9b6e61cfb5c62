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
from tests.engine.rows.rows_worker import Garden
from tests.engine.rows.support import AS_IT_IS_KNOWN, again, die, finish_all, result
from tests.engine.support import LoopClock, forever, turns
from tests.event_loops import beside, run


async def test_batch_after_batch_is_worked_off_until_nothing_is_due() -> None:
    seen = list[tuple[int, list[Any], list[Any]]]()

    async def handler(batch: Batch) -> None:
        seen.append((len(batch), batch.keys, [row["status"] for row in batch.rows]))
        assert await batch.done(batch.keys) == batch.keys
        assert batch.open == []

    garden = Garden(handler, count=7)
    row = await garden.run_once()
    assert seen == [(3, [1, 2, 3], ["busy"] * 3), (3, [4, 5, 6], ["busy"] * 3), (1, [7], ["busy"])]
    assert garden.ids("gone") == [1, 2, 3, 4, 5, 6, 7]
    assert row.state is State.COMPLETED
    assert result(row) == {"batches": 3, "done": 7, "failed": 0, "retried": 0, "left": 0, "lost": 0}
    assert (row.message or "").startswith("batch 3, 6 rows")
    assert "release" not in garden.table.calls, "a batch that is finished needs no other statement"


async def test_what_a_handler_leaves_open_goes_back_at_its_end() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        await batch.retry(batch.keys[1:2])
        assert batch.open == batch.keys[2:]

    garden = Garden(handler, count=3)
    row = await garden.run_once()
    assert (garden.ids("gone"), garden.ids("busy")) == ([1, 2, 3], [])
    assert result(row) == {"batches": 3, "done": 3, "failed": 0, "retried": 2, "left": 1, "lost": 0}


def test_rows_whose_claim_or_release_is_refused_are_reported_with_their_run() -> None:
    async def handler(batch: Batch) -> None:
        garden.plain.refusals = [Refusal("release", (1,), "row is frozen")]
        await batch.done(batch.keys[1:])

    async def test() -> None:
        garden.plain.refusals = [
            Refusal("claim", (7,), "no"),
            Refusal("claim", (8,), "not this one"),
            Refusal("other", (9,), "no"),
        ]
        await garden.run_once()
        found = [{**each, "job": each["job"] is not None} for each in garden.log.of("rows.refused")]
        shared = {"rows": "pastes", "job": True}
        assert found[:3] == [
            {**shared, "verb": "claim", "count": 2, "keys": "7, 8", "error": "no"},
            {**shared, "verb": "other", "count": 1, "keys": "9", "error": "no"},
            {**shared, "verb": "release", "count": 1, "keys": "1", "error": "row is frozen"},
        ]

    garden = Garden(handler, count=3)
    run(test())


async def test_a_handler_may_answer_what_every_handler_may() -> None:
    async def handler(batch: Batch) -> Snooze:
        await batch.done(batch.keys[:1])
        return Snooze("1h")

    garden = Garden(handler, count=3)
    row = await garden.run_once()
    assert (row.state, garden.ids("gone"), garden.ids("new")) == (State.SCHEDULED, [1], [2, 3])


@pytest.mark.parametrize("options", AS_IT_IS_KNOWN)
async def test_s3_after_its_worker_was_killed_the_next_attempt_gives_back_first_what_the_dead_one_had(
    options: dict[str, Any],
) -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        begun.set()
        await forever()

    garden = Garden(handler, **options)
    (job,) = await garden.start()
    await begun.wait()
    other = await die(garden, **options)
    beside(other._report())
    assert garden.ids("busy") == [2, 3]
    garden.table.calls.clear()
    await other.exchange.step()
    row = await other.finish([job])
    known = SAVED_FENCES if options else 1
    assert [each for each in garden.table.calls if each != "stamps"][: known + 2] == [
        "inspect",
        *["release"] * known,
        "claim",
    ]
    assert (row.state, row.crashes, garden.ids("gone")) == (State.COMPLETED, 1, [1, 2, 3])
    assert result(row)["done"] == 2, "what the dead one counted last died with it"


@pytest.mark.parametrize("options", AS_IT_IS_KNOWN)
async def test_s3_whichever_batch_its_worker_was_killed_in_the_next_attempt_gives_back_that(options: dict[str, Any]) -> None:
    begun, batches = asyncio.Event(), list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) <= SAVED_FENCES + 1:
            await batch.done(batch.keys)
            return
        begun.set()
        await forever()

    count = 3 * (SAVED_FENCES + 2)
    garden = Garden(handler, count=count, **options)
    (job,) = await garden.start()
    await begun.wait()
    assert garden.ids("busy") == [count - 2, count - 1, count]
    other = await die(garden, count=count, **options)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, len(garden.ids("gone"))) == (State.COMPLETED, 1, count)


async def test_l2_a_run_that_passes_what_its_dead_worker_had_ends_so_that_crashes_are_not_summed_up_over_hours() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    garden = Garden(handler, count=7)
    (job,) = await garden.start()
    await begun.wait()
    other = await die(garden, count=7)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, result(row)["batches"]) == (State.COMPLETED, 1, 3)
    assert (garden.ids("gone"), garden.ids("new")) == ([1, 2, 3], [4, 5, 6, 7])
    (after,) = await other.start()
    await other.until_ended(2)
    await other.settle()
    assert (result(await other.row(after))["batches"], garden.ids("gone")) == (2, [1, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("options", AS_IT_IS_KNOWN[1:])
async def test_a_claim_whose_mark_was_known_before_and_whose_answer_was_lost_is_given_back_by_the_next_attempt(
    options: dict[str, Any],
) -> None:
    garden = Garden(finish_all, **options)
    garden.table.lose_answer("claim")
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (row.state, garden.ids("busy"), garden.ids("gone")) == (State.SCHEDULED, [1, 2, 3], [])
    garden.clock.advance(5)
    garden.beat()
    await garden.memory.beat([row.lease or UUID(int=1)])
    await garden.exchange.step()
    await garden.until_ended(2)
    await garden.settle()
    assert ((await garden.row(job)).state, garden.ids("gone")) == (State.COMPLETED, [1, 2, 3])


async def test_s2_an_owner_is_named_after_the_claim_which_no_store_makes_twice() -> None:
    owners = list[str]()

    async def handler(batch: Batch) -> None:
        claim = batch.job.token.claim
        assert claim is not None
        owners.append(batch.rows[0]["holder"])
        assert owners[-1] == f"{batch.job.id.hex}.1.{claim.hex[:8]}.{len(owners)}"
        assert len(owners[-1]) <= OWNER_LENGTH
        await batch.done(batch.keys)

    row = await Garden(handler, count=6, owner="holder").run_once()
    assert (row.state, len(owners), len(set(owners))) == (State.COMPLETED, 2, 2)


async def test_a_database_that_is_away_costs_a_run_no_attempt() -> None:
    garden = Garden(finish_all)
    garden.table.is_out = True
    row = await garden.run_once()
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 0, 0)
    assert garden.log.of("store.unavailable")[0]["operation"] == "rows.pastes"


@pytest.mark.parametrize("is_thread", [False, True])
async def test_a_database_that_goes_away_under_a_handler_costs_its_run_no_attempt(is_thread: bool) -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        raise StoreUnavailable("transaction: its connection was closed before its block ended")

    def in_thread(batch: SyncBatch) -> None:
        batch.done(batch.keys[:1])
        raise StoreUnavailable("transaction: its connection was closed before its block ended")

    garden = Garden(in_thread if is_thread else handler)
    row = await garden.run_once()
    assert (row.state, row.failures, row.crashes) == (State.SCHEDULED, 0, 0)
    assert (garden.ids("gone"), garden.ids("new")) == ([1], [2, 3])
    assert garden.log.of("store.unavailable")[0]["operation"] == "rows.pastes"


async def test_what_cannot_be_given_back_now_is_given_back_by_the_next_attempt() -> None:
    async def handler(batch: Batch) -> None:
        garden.table.fail("release", 2)

    garden = Garden(handler)
    row = await garden.run_once()
    assert (row.state, garden.ids("busy")) == (State.SCHEDULED, [1, 2, 3])
    assert json.loads(row.checkpoint or b"{}")["marks"]


@pytest.mark.virtual_time
async def test_a_handler_that_raises_is_heard_however_long_it_takes_to_give_back_what_is_open() -> None:
    async def handler(batch: Batch) -> None:
        raise ValueError("no")

    garden = Garden(handler)
    gate = garden.table.hold("release")
    jobs = await garden.start()
    await gate.entered.wait()
    await LoopClock().sleep(10 * RELEASE_WITHIN)
    gate.opened.set()
    row = await garden.finish(jobs)
    assert row.error is not None
    assert (row.failures, row.error.message, garden.ids("new")) == (1, "no", [1, 2, 3])


async def test_a_table_that_does_not_fit_fails_the_run_before_anything_is_claimed() -> None:
    garden = Garden(finish_all)
    garden.plain.findings = Findings(problems=("there is no column 'since'",))
    row = await garden.run_once()
    assert row.error is not None
    assert (row.failures, row.error.message) == (1, "rows pastes: there is no column 'since'")
    assert "claim" not in garden.table.calls


async def test_l7_a_drain_between_two_batches_ends_the_run_and_another_worker_goes_on() -> None:
    async def handler(batch: Batch) -> None:
        garden.executor.request_drain()
        await batch.done(batch.keys)

    garden = Garden(handler, count=9)
    row = await garden.run_once()
    assert (row.state, row.failures, garden.ids("gone")) == (State.AVAILABLE, 0, [1, 2, 3])
    assert garden.ids("busy") == []
    assert json.loads(row.checkpoint or b"{}")["so_far"]["done"] == 3


async def test_l7_a_run_that_was_on_its_way_when_the_drain_began_claims_nothing() -> None:
    garden = Garden(finish_all)
    garden.executor.request_drain()
    row = await garden.run_once()
    assert (row.state, row.failures, garden.ids("new")) == (State.AVAILABLE, 0, [1, 2, 3])
    assert "claim" not in garden.table.calls


async def test_a_run_goes_to_the_end_of_its_queue_by_and_by_and_counts_on() -> None:
    async def handler(batch: Batch) -> None:
        garden.clock.advance(SLICE / 2)
        await batch.done(batch.keys)

    garden = Garden(handler, count=9)
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (row.state, garden.ids("gone")) == (State.AVAILABLE, [1, 2, 3, 4, 5, 6])
    garden.beat()
    await garden.memory.beat([UUID(int=1)])
    await garden.exchange.step()
    await garden.until_ended(2)
    await garden.settle()
    row = await garden.row(job)
    assert (row.state, result(row)["batches"], result(row)["done"]) == (State.COMPLETED, 3, 9)


@pytest.mark.parametrize(
    ("why", "state"), [(Stop.CANCELLED, State.CANCELLED), (Stop.DRAINED, State.AVAILABLE), (Stop.LATE, State.AVAILABLE)]
)
async def test_code_that_is_stopped_inside_a_batch_gives_back_what_is_open(why: Stop, state: State) -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:1])
        begun.set()
        await forever()

    garden = Garden(handler)
    jobs = await garden.start()
    await begun.wait()
    if why is Stop.CANCELLED:
        await garden.memory.request_cancel(jobs)
    garden.executor.stop(jobs[0], why)
    row = await garden.finish(jobs)
    assert (row.state, garden.ids("gone"), garden.ids("new")) == (state, [1], [2, 3])


async def test_a_claim_that_is_on_its_way_when_the_run_is_stopped_is_given_back() -> None:
    garden = Garden(finish_all)
    gate = garden.table.hold("claim", is_back=True)
    jobs = await garden.start()
    await gate.entered.wait()
    garden.executor.stop(jobs[0], Stop.DRAINED)
    await turns()
    assert garden.ids("busy") == [1, 2, 3]
    gate.opened.set()
    row = await garden.finish(jobs)
    assert (row.state, garden.ids("new"), garden.ids("gone")) == (State.AVAILABLE, [1, 2, 3], [])


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_s8_a_thread_that_is_stopped_while_a_claim_is_on_its_way_starts_nothing(owner: str | None) -> None:
    begun = list[int]()

    def handler(batch: SyncBatch) -> None:
        begun.append(len(batch))
        batch.done(batch.keys)

    garden = Garden(handler, owner=owner)
    gate = garden.table.hold("claim", is_back=True)
    jobs = await garden.start()
    await gate.entered.wait()
    garden.executor.stop(jobs[0], Stop.LATE)
    gate.opened.set()
    row = await garden.finish(jobs)
    assert (begun, row.state, garden.ids("new")) == ([], State.AVAILABLE, [1, 2, 3])


async def test_whoever_is_stopped_twice_gives_back_nevertheless() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    garden = Garden(handler)
    jobs = await garden.start()
    await begun.wait()
    gate = garden.table.hold("release")
    garden.executor.stop(jobs[0], Stop.DRAINED)
    await gate.entered.wait()
    garden.executor.stop(jobs[0], Stop.LATE)
    await turns()
    gate.opened.set()
    row = await garden.finish(jobs)
    assert (row.state, garden.ids("new"), garden.table.calls.count("release")) == (State.AVAILABLE, [1, 2, 3], 1)


@pytest.mark.virtual_time
async def test_s8_a_claim_that_is_not_answered_keeps_no_run_from_ending() -> None:
    garden = Garden(finish_all)
    gate = garden.table.hold("claim")
    jobs = await garden.start()
    await gate.entered.wait()
    started = asyncio.get_running_loop().time()
    garden.executor.stop(jobs[0], Stop.DRAINED)
    row = await garden.finish(jobs)
    assert asyncio.get_running_loop().time() - started >= RELEASE_WITHIN
    assert (row.state, garden.ids("new")) == (State.AVAILABLE, [1, 2, 3])


@pytest.mark.virtual_time
async def test_s8_a_database_that_does_not_answer_keeps_no_run_from_ending() -> None:
    begun = asyncio.Event()

    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    garden = Garden(handler)
    jobs = await garden.start()
    await begun.wait()
    garden.table.hold("release")
    started = asyncio.get_running_loop().time()
    garden.executor.stop(jobs[0], Stop.DRAINED)
    row = await garden.finish(jobs)
    assert asyncio.get_running_loop().time() - started >= RELEASE_WITHIN
    assert (row.state, garden.ids("busy")) == (State.SCHEDULED, [1, 2, 3]), "the next attempt gives them back"


async def test_rows_of_a_later_batch_whose_answer_was_lost_are_given_back_and_those_before_it_are_counted() -> None:
    async def handler(batch: Batch) -> None:
        if garden.table.calls.count("claim") == 1:
            garden.table.lose_answer("claim")
        await batch.done(batch.keys)

    garden = Garden(handler, count=6, owner="holder")
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (row.state, garden.ids("busy"), garden.ids("gone")) == (State.SCHEDULED, [4, 5, 6], [1, 2, 3])
    row = await again(garden, job)
    assert (row.state, garden.ids("gone"), result(row)["done"]) == (State.COMPLETED, [1, 2, 3, 4, 5, 6], 6)


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_what_a_run_has_done_is_counted_also_when_it_fails_before_that_is_saved(owner: str | None) -> None:
    begun = list[Batch]()

    async def handler(batch: Batch) -> None:
        begun.append(batch)
        if len(begun) == 3:
            await batch.done(batch.keys[:1])
            raise LookupError("no bucket")
        await batch.done(batch.keys)

    garden = Garden(handler, count=9, owner=owner)
    (job,) = await garden.start()
    assert (await garden.finish([job])).failures == 1
    row = await again(garden, job)
    assert (row.state, result(row)["done"], result(row)["batches"]) == (State.COMPLETED, 9, 5)


@pytest.mark.parametrize("patience", ["2h", "1s"])
async def test_stamps_that_were_saved_ahead_are_used_for_a_moment_only(patience: str) -> None:
    good_for = min(FRESH, FRESH_PART * (1.0 if patience == "1s" else 7200.0))
    saved = list[int]()

    async def handler(batch: Batch) -> None:
        saved.append(garden.table.calls.count("stamps"))
        await batch.done(batch.keys)
        garden.clock.advance(0.51 * good_for)

    garden = Garden(handler, count=12, tells_stamps=True, stale_after=patience)
    row = await garden.run_once()
    assert (row.state, saved) == (State.COMPLETED, [1, 1, 2, 2])


@pytest.mark.parametrize("step", [3 * 3600.0, -1.0])
async def test_stamps_that_were_saved_before_the_machine_slept_or_its_clock_was_set_are_not_used(step: float) -> None:
    async def handler(batch: Batch) -> None:
        ages.append(garden.clock.wall() - batch.rows[0]["since"])
        await batch.done(batch.keys)
        garden.clock.step_wall(step)

    ages, garden = list[float](), Garden(handler, count=6, tells_stamps=True)
    assert (await garden.run_once()).state is State.COMPLETED
    assert ages == [pytest.approx(0.0, abs=0.001)] * 2


async def test_a_stamp_that_was_not_saved_ahead_is_saved_with_those_that_are() -> None:
    async def handler(batch: Batch) -> None:
        begun.set()
        await forever()

    begun = asyncio.Event()
    garden = Garden(handler, tells_stamps=True)
    garden.plain.refuses_stamps = True
    (job,) = await garden.start()
    await begun.wait()
    known = json.loads((await garden.row(job)).checkpoint or b"{}")["marks"]
    assert len(known) == SAVED_FENCES
    other = await die(garden, tells_stamps=True)
    beside(other._report())
    garden.table.calls.clear()
    await other.exchange.step()
    row = await other.finish([job])
    assert garden.table.calls[: SAVED_FENCES + 1] == ["inspect", *["release"] * SAVED_FENCES]
    assert (row.state, garden.ids("gone")) == (State.COMPLETED, [1, 2, 3])
