"""A run works off batch after batch; whatever ends it, no row stays with nobody, and none is finished by a former owner."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import Batch, Cancel, ConfigurationError, Fail, JobLost, Retry, RowsLost, Snooze, State, SyncBatch, Unsupported
from holdfast._core import table_spec as watch
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd, rescue
from holdfast._core.record import JobRecord
from holdfast._core.requests import IsolatedJobs, NewLease
from holdfast._engine.rows.run import FRESH, FRESH_PART, RELEASE_WITHIN, SAVED_FENCES, SLICE, is_of_no_row
from holdfast._engine.runners.running import Stop
from holdfast._ports.table import Findings, Refusal, ResetRow, RowFence
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.rows.postgres.inspection import OWNER_LENGTH
from tests.engine.rows.rows_worker import Garden
from tests.engine.support import LEASE, OTHER, Held, LoopClock, forever, turns, until
from tests.event_loops import beside, run

Handler = Callable[[Batch], Awaitable[None]]


def result(row: JobRecord) -> dict[str, int]:
    """What the run has counted; one that rests counts on when it is tried again."""
    said = json.loads(row.result or row.checkpoint or b"{}")
    found: dict[str, int] = said.get("so_far", said)
    return found


async def finish_all(batch: Batch) -> None:
    await batch.done(batch.keys)


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


async def again(garden: Garden, job: UUID, ended: int = 2) -> JobRecord:
    """The run once its next try has ended, an interval later and not before."""
    garden.clock.advance(4.9)
    garden.beat()
    await garden.memory.beat([LEASE.id])
    await garden.exchange.step()
    assert not garden.executor.running
    garden.clock.advance(0.2)
    garden.beat()
    await garden.exchange.step()
    await garden.until_ended(ended)
    await garden.settle()
    return await garden.row(job)


async def test_a_batch_that_finishes_nothing_lets_the_run_rest_so_that_rows_that_always_fail_make_no_hot_loop() -> None:
    tries = list[int]()

    async def handler(batch: Batch) -> None:
        tries.append(len(batch))
        await (batch.retry(batch.keys[:2]) if len(tries) == 1 else batch.done(batch.keys))

    garden = Garden(handler, count=3)
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (row.state, row.failures, garden.ids("new")) == (State.SCHEDULED, 0, [1, 2, 3])
    assert result(row) == {"batches": 1, "done": 0, "failed": 0, "retried": 2, "left": 1, "lost": 0}
    row = await again(garden, job)
    assert (row.state, result(row)["batches"], result(row)["done"], tries) == (State.COMPLETED, 2, 3, [3, 3])


async def test_a_handler_that_raises_half_way_keeps_what_it_finished_and_is_tried_again_an_interval_later() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys[:2])
        raise ValueError("the bucket is gone")

    garden = Garden(handler, count=5)
    (job,) = await garden.start()
    row = await garden.finish([job])
    assert (garden.ids("gone"), garden.ids("new")) == ([1, 2], [3, 4, 5])
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "the bucket is gone")
    row = await again(garden, job)
    assert (row.state, row.failures, garden.ids("gone"), garden.ids("new")) == (State.SCHEDULED, 2, [1, 2, 3], [4, 5])


# rows that raise


async def tried(garden: Garden, runs: int = 1) -> list[JobRecord]:
    """So many runs, each through all of its attempts."""
    ended, found = 0, list[JobRecord]()
    for _ in range(runs):
        (job,) = await garden.start()
        await garden.until_ended(ended := ended + 1)
        await garden.settle()
        row = await garden.row(job)
        while row.state is State.SCHEDULED:
            row = await again(garden, job, ended := ended + 1)
        found.append(row)
    return found


def picky(calls: list[int], *poison: int) -> Handler:
    """A handler that raises when one of these rows is in its batch."""

    async def handler(batch: Batch) -> None:
        calls.append(len(batch))
        if bad := set(batch.keys) & {*poison}:
            raise ValueError(f"row {min(bad)} is broken")
        await batch.done(batch.keys)

    return handler


AS_IT_IS_KNOWN: list[dict[str, Any]] = [{}, {"tells_stamps": True}, {"owner": "holder"}]
"""When a claim's mark is known: with its answer, or before."""
ENDING: dict[str, Any] = {"resets": "resets", "max_resets": 2, "failed": "bad", "reason": "why"}


@pytest.mark.parametrize("poison", [1, 30, 60])
@pytest.mark.parametrize("options", [{}, {"tells_stamps": True}, {"owner": "holder"}, ENDING])
async def test_s9_a_row_that_raises_does_not_stop_the_others(options: dict[str, Any], poison: int) -> None:
    calls = list[int]()
    garden = Garden(picky(calls, poison), count=60, batch=1000, **options)
    rows = await tried(garden, runs=2)
    assert (garden.ids("gone"), garden.ids("busy")) == ([id for id in range(1, 61) if id != poison], [poison])
    assert len(calls) <= 40
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    (kept,) = garden.log.of("rows.kept")
    assert (kept["rows"], kept["keys"], kept["error"]) == ("pastes", str(poison), f"ValueError: row {poison} is broken")


ENDS = [SystemExit(3), asyncio.CancelledError(), BaseExceptionGroup("both", [SystemExit(1), ValueError()])]
"""What no ``except Exception`` sees."""


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
async def test_s9_a_row_with_which_its_handler_exits_does_not_stop_the_others(error: BaseException) -> None:
    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise error
        await batch.done(batch.keys)

    garden = Garden(handler, count=9, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([2], 8)


VERDICTS = [Fail("no"), Cancel("no"), Retry(reason="no"), ExceptionGroup("one", [Fail("no")])]
"""What ends a job, and says nothing that would end a row."""


@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
async def test_s9_a_row_with_which_its_handler_fails_cancels_or_retries_its_job_does_not_stop_the_others(
    verdict: Exception, is_raised: bool
) -> None:
    async def handler(batch: Batch) -> Exception | None:
        if 2 not in batch.keys:
            await batch.done(batch.keys)
            return None
        if is_raised or isinstance(verdict, ExceptionGroup):
            raise verdict
        return verdict

    garden = Garden(handler, count=9, batch=9)
    rows = await tried(garden, runs=2)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([2], 8)
    assert [row.state for row in rows] == [State.COMPLETED] * 2
    assert garden.log.of("rows.kept")[0]["error"].endswith("no")


async def test_a_run_whose_handler_fails_it_says_so() -> None:
    async def handler(batch: Batch) -> None:
        raise Fail("the bucket is gone")

    garden = Garden(handler, count=3)
    row = await garden.run_once()
    assert row.error is not None
    assert (row.state, row.failures, row.error.message) == (State.SCHEDULED, 1, "Fail: the bucket is gone")


async def test_s9_a_row_with_which_a_threads_handler_exits_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise SystemExit(3)
        batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), garden.ids("gone")) == ([2], [1, 3, 4, 5])


def test_l11_a_row_beside_a_lost_job_or_a_person_who_stops_the_program_is_not_blamed() -> None:
    for error in (KeyboardInterrupt(), BaseExceptionGroup("both", [ValueError(), JobLost("gone")])):
        assert is_of_no_row(error)
    assert not is_of_no_row(SystemExit())


async def test_s9_a_row_that_raised_is_taken_back_and_counted_by_the_watchdog() -> None:
    garden = Garden(picky([], 2), batch=9, **ENDING)
    await tried(garden)
    garden.clock.advance(7201)
    assert [each.key for each in await garden.plain.reset(9)] == [(2,)]
    assert (garden.plain.rows[2,]["status"], garden.plain.rows[2,]["resets"]) == ("new", 1)


async def test_s9_a_row_that_raises_once_too_often_fails_with_the_error_and_the_others_go_on() -> None:
    garden = Garden(picky([], 2), count=9, batch=9, **ENDING, columns=["id"])
    garden.plain.rows[2,]["resets"] = 2
    row, _ = await tried(garden, runs=2)
    found = garden.plain.rows[2,]
    assert (found["status"], found["why"], result(row)["failed"]) == ("bad", "row 2 is broken", 1)
    assert len(garden.ids("gone")) == 8


async def test_s9_a_handler_that_always_raises_keeps_one_row_away_and_its_run_fails() -> None:
    calls = list[int]()
    garden = Garden(picky(calls, *range(1, 61)), count=60, batch=1000, **ENDING)
    (row,) = await tried(garden)
    assert (row.state, calls, len(garden.ids("busy")), len(garden.ids("new"))) == (State.FAILED, [60, 31, 1, 1], 1, 59)


async def test_s9_rows_that_raise_one_after_the_other_do_not_stop_the_others() -> None:
    garden = Garden(picky([], 3, 4, 5), count=12, batch=100, **ENDING)
    await tried(garden, runs=4)
    assert (garden.ids("busy"), len(garden.ids("gone"))) == ([3, 4, 5], 9)


async def test_s9_a_row_of_a_threads_handler_that_raises_does_not_stop_the_others() -> None:
    def handler(batch: SyncBatch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9)
    await tried(garden, runs=2)
    assert (garden.ids("busy"), garden.ids("gone")) == ([2], [1, 3, 4, 5])


@pytest.mark.parametrize("options", AS_IT_IS_KNOWN)
async def test_s9_a_row_that_is_kept_away_is_not_given_back_by_the_next_attempt(options: dict[str, Any]) -> None:
    saved = list[str]()

    async def handler(batch: Batch) -> None:
        if 2 in batch.keys:
            raise ValueError("row 2 is broken")
        saved.append(str((await garden.row(batch.job.id)).checkpoint))
        await batch.done(batch.keys)

    garden = Garden(handler, count=5, batch=9, **options)
    await tried(garden)
    row = garden.plain.rows[2,]
    mark = row["holder"] if "owner" in options else repr(row["since"])
    assert (row["status"], len(saved)) == ("busy", 2)
    assert all(mark not in each for each in saved[1:])


async def test_a_reset_by_hand_ends_where_a_trigger_takes_stamps_back() -> None:
    adopted = list[int]()
    garden = Garden(finish_all, count=7)

    async def adopt(limit: int) -> int:
        adopted.append(limit)
        return limit

    garden.plain.stamp_unstamped = adopt  # type: ignore[method-assign]
    assert await garden.rows.areset() == []
    assert len(adopted) == 3


async def test_a_reset_by_hand_ends_where_a_trigger_puts_rows_back() -> None:
    garden = Garden(finish_all, count=7)

    answers = [[ResetRow((1,), watch.RowOutcome.RETRY, "", 9.0)]] * 3 + [[]]

    async def reset(limit: int, past: int = 0) -> list[ResetRow]:
        return answers.pop(0)

    garden.plain.reset = reset  # type: ignore[method-assign]
    assert [each.key for each in await garden.rows.areset()] == [(1,)]


async def test_a_reset_by_hand_goes_past_rows_that_a_trigger_puts_back() -> None:
    garden = Garden(finish_all, count=9, batch=3)
    reset, since = garden.plain.reset, garden.clock.wall() - 7201
    for id, row in enumerate(garden.plain.rows.values()):
        row |= {"status": "busy", "since": since + id / 1000}

    async def undone(limit: int, past: int = 0) -> list[ResetRow]:
        before = deepcopy(garden.plain.rows)
        found = await reset(limit, past)
        garden.plain.rows |= {(id,): before[id,] for id in (1, 2, 3, 4)}
        return found

    garden.plain.reset = undone  # type: ignore[method-assign]
    assert len(await garden.rows.areset()) == 9
    assert garden.ids("new") == [5, 6, 7, 8, 9]


async def test_a_reset_by_hand_that_the_database_refuses_says_so() -> None:
    garden = Garden(finish_all, count=2)
    garden.plain.refusals = [Refusal("reset", (2,), "row is frozen")]
    with pytest.raises(HoldfastError, match="rows pastes: reset: 2: row is frozen"):
        await garden.rows.areset()
    assert garden.log.of("rows.refused")[0]["error"] == "row is frozen"


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


async def test_a_row_that_is_done_before_its_handler_raises_is_done() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(batch.keys)
        raise ValueError("afterwards")

    garden = Garden(handler, count=5, batch=2)
    (row,) = await tried(garden)
    assert (row.state, garden.ids("gone"), garden.ids("new")) == (State.FAILED, [1, 2, 3, 4], [5])


async def test_rows_that_a_handler_neither_finishes_nor_raises_for_do_not_stop_the_others() -> None:
    async def handler(batch: Batch) -> None:
        await batch.done(key for key in batch.keys if key != 2)

    garden = Garden(handler, count=9, batch=4)
    row = await garden.run_once()
    assert (row.state, row.failures, garden.ids("new"), len(garden.ids("gone"))) == (State.SCHEDULED, 0, [2], 8)


async def test_a_handler_may_answer_what_every_handler_may() -> None:
    async def handler(batch: Batch) -> Snooze:
        await batch.done(batch.keys[:1])
        return Snooze("1h")

    garden = Garden(handler, count=3)
    row = await garden.run_once()
    assert (row.state, garden.ids("gone"), garden.ids("new")) == (State.SCHEDULED, [1], [2, 3])


async def test_rows_fail_for_good_with_a_reason() -> None:
    async def handler(batch: Batch) -> None:
        assert await batch.fail([2], "no such object") == [2]
        await batch.done([1, 3])

    garden = Garden(handler, failed="bad", reason="why")
    row = await garden.run_once()
    assert (garden.ids("bad"), garden.plain.rows[2,]["why"], result(row)["failed"]) == ([2], "no such object", 1)


def test_fail_without_a_status_for_it_says_what_to_do() -> None:
    errors = list[ConfigurationError]()

    async def handler(batch: Batch) -> None:
        with pytest.raises(ConfigurationError, match=r"pass failed='…' to app.rows\('pastes'") as caught:
            await batch.fail(batch.keys)
        errors.append(caught.value)
        await batch.done(batch.keys)

    run(_runs(handler))
    assert len(errors) == 1


@pytest.mark.parametrize("keys", [[4], ["1"], "12", [1, 9]])
def test_keys_of_another_batch_are_refused(keys: Any) -> None:
    async def handler(batch: Batch) -> None:
        with pytest.raises(ValueError, match=r"batch\.keys"):
            await batch.done(keys)
        await batch.done(batch.keys)

    run(_runs(handler))


def test_keys_of_several_columns_are_tuples() -> None:
    async def handler(batch: Batch) -> None:
        assert batch.keys == [(1, 1), (2, 2), (3, 3)]
        assert await batch.done([(1, 1), [2, 2]]) == [(1, 1), (2, 2)]
        assert await batch.done(batch.keys) == [(3, 3)], "what is finished is not sent again"

    run(_runs(handler, key=("shop", "id")))


async def _runs(handler: Handler, **options: Any) -> None:
    row = await Garden(handler, **options).run_once()
    assert row.state is State.COMPLETED, row.error


# recovery


async def die(
    garden: Garden, handler: Handler = finish_all, *, lease: NewLease = LEASE, heir: NewLease = OTHER, **options: Any
) -> Garden:
    """The worker is killed, and another one has its jobs; the table and the store are the same."""
    why = LeaseEnd(RescueReason.CRASHED, "SIGKILL")
    await garden.memory.end_lease(lease.id, why)
    await garden.memory.exchange([rescue(hold, why, jitter=0.0) for hold in await garden.memory.held(lease.id)])
    other = Garden(handler, **options)
    other.table, other.plain, other.memory, other.store.store = garden.table, garden.plain, garden.memory, garden.memory
    await other.memory.open_lease(heir)
    other.exchange = other.open_exchange(heir, IsolatedJobs.INCLUDE)
    return other


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


# the end of a run


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


async def test_s9_a_row_that_kills_is_alone_in_the_end_and_nobody_pays_with_it() -> None:
    begun = asyncio.Event()

    async def poisoned(batch: Batch) -> None:
        if 5 in batch.keys:
            begun.set()
            await forever()
        await batch.done(batch.keys)

    first = garden = Garden(poisoned, count=9, batch=9)
    await garden.start()
    await begun.wait()
    sizes = [len(garden.ids("busy"))]
    for lease, heir in ((LEASE, OTHER), (OTHER, structs.replace(OTHER, id=UUID(int=3), worker="worker-3"))):
        begun.clear()
        garden = await die(garden, poisoned, lease=lease, heir=heir, batch=9)
        first.clock.advance(5.0)
        beside(garden._report())
        await garden.exchange.step()
        await begun.wait()
        sizes.append(len(garden.ids("busy")))
    assert (sizes, garden.ids("busy"), garden.ids("gone")) == ([9, 3, 1], [5], [1, 2, 3, 4])


async def test_s9_workers_that_died_long_ago_are_not_held_against_a_run_for_ever() -> None:
    begun = asyncio.Event()

    async def slow(batch: Batch) -> None:
        begun.set()
        await forever()

    garden = Garden(slow, count=9)
    (job,) = await garden.start()
    await begun.wait()

    async def handler(batch: Batch) -> None:
        other.clock.advance(SLICE)
        await batch.done(batch.keys)

    other = await die(garden, handler)
    beside(other._report())
    await other.exchange.step()
    row = await other.finish([job])
    assert (row.state, row.crashes, result(row)["done"], garden.ids("new")) == (
        State.COMPLETED,
        1,
        1,
        [2, 3, 4, 5, 6, 7, 8, 9],
    )


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


# a job or rows that were lost


async def test_s3_after_the_job_was_lost_every_verb_raises_job_lost() -> None:
    raised = list[str]()

    async def handler(batch: Batch) -> None:
        garden.executor.running[batch.job.id].context.mark_lost()
        verbs: dict[str, Callable[[], Awaitable[Any]]] = {
            "done": lambda: batch.done(batch.keys),
            "retry": lambda: batch.retry(batch.keys),
            "fail": lambda: batch.fail(batch.keys),
            "alive": batch.alive,
            "transaction": batch.transaction().__aenter__,
        }
        for name, verb in verbs.items():
            try:
                await verb()
            except JobLost:
                raised.append(name)

    garden = Garden(handler, owner="holder", failed="bad")
    await garden.finish(await garden.start())
    assert raised == ["done", "retry", "fail", "alive", "transaction"]
    assert garden.ids("new") == [1, 2, 3], "they are given back nevertheless: the mark says that they were ours"


async def take_over(garden: Garden, *, stale: float = 7201.0) -> None:
    """The watchdog takes all rows back, and somebody else claims the first two."""
    garden.clock.advance(stale)
    assert len(await garden.plain.reset(100)) == 3
    assert len((await garden.plain.claim("somebody", 2)).rows) == 2


async def test_s3_a_zombie_whose_rows_were_reset_and_taken_changes_nothing_and_learns_which() -> None:
    async def handler(batch: Batch) -> None:
        await take_over(garden)
        assert await batch.done(batch.keys) == []
        assert batch.open == []

    garden = Garden(handler)
    row = await garden.run_once()
    assert (garden.ids("busy"), garden.ids("new")) == ([1, 2], [3])
    (event,) = garden.log.of("rows.lost")
    assert (event["rows"], event["count"], event["keys"]) == ("pastes", 3, "1, 2, 3")
    assert result(row) == {"batches": 1, "done": 0, "failed": 0, "retried": 0, "left": 0, "lost": 3}


async def test_s3_a_batch_renews_its_stamp_with_an_owner_column_and_is_not_taken_for_stuck() -> None:
    async def handler(batch: Batch) -> None:
        for _ in range(3):
            garden.clock.advance(7000)
            assert await batch.alive()
            assert await garden.plain.reset(100) == []
        await batch.done(batch.keys[:1])
        garden.clock.advance(7201)
        assert len(await garden.plain.reset(100)) == 2
        assert not await batch.alive()
        assert batch.open == []

    garden = Garden(handler, owner="holder")
    row = await garden.run_once()
    counts = json.loads(row.checkpoint or b"{}")["so_far"]
    assert (row.state, counts["done"], counts["lost"]) == (State.AVAILABLE, 1, 2)
    (tight,) = garden.log.of("rows.batch_slow")
    assert tight["seconds"] == 7201.0


async def test_the_longest_time_under_one_stamp_counts() -> None:
    async def handler(batch: Batch) -> None:
        garden.clock.advance(2500)
        await batch.alive()
        garden.clock.advance(10)
        await batch.done(batch.keys)

    garden = Garden(handler, owner="holder")
    await garden.run_once()
    assert [each["seconds"] for each in garden.log.of("rows.batch_slow")] == [2500.0]


def test_without_an_owner_column_a_stamp_cannot_be_renewed() -> None:
    async def handler(batch: Batch) -> None:
        with pytest.raises(Unsupported, match="owner='column'"):
            await batch.alive()
        await batch.done(batch.keys)

    run(_runs(handler))


@pytest.mark.parametrize(("took", "is_tight"), [(2399.0, False), (2401.0, True)])
async def test_a_batch_that_takes_more_than_a_third_of_the_patience_is_said(took: float, is_tight: bool) -> None:
    async def handler(batch: Batch) -> None:
        garden.clock.advance(took)
        await batch.done(batch.keys)

    garden = Garden(handler)
    await garden.run_once()
    said = [(each["seconds"], each["stale_after"]) for each in garden.log.of("rows.batch_slow")]
    assert said == ([(took, 7200.0)] if is_tight else [])


async def test_a_lost_answer_is_asked_for_again_and_is_no_loss() -> None:
    async def handler(batch: Batch) -> None:
        garden.table.fail("move")
        finishing = asyncio.ensure_future(batch.done(batch.keys[:1]))
        await until(lambda: "move" in garden.table.calls)
        await turns()
        garden.clock.advance(1)
        assert await finishing == [1]
        garden.table.lose_answer("move")
        finishing = asyncio.ensure_future(batch.done(batch.keys[1:]))
        await until(lambda: garden.table.calls.count("move") == 3)
        await turns()
        garden.clock.advance(1)
        assert await finishing == [], "only what is known to have moved"

    garden = Garden(handler)
    await garden.run_once()
    assert (garden.ids("gone"), garden.log.of("rows.lost")) == ([1, 2, 3], [])


# transactions


async def test_row_state_and_the_users_statements_commit_together() -> None:
    async def handler(batch: Batch) -> None:
        if len(batch) == 1:
            return
        async with batch.transaction() as tx:
            assert await tx.done(batch.keys[:2]) == [1, 2]
            assert await tx.done(batch.keys[:2]) == [], "once"
            tx.connection["content"] = 7
        assert batch.open == [3]
        try:
            async with batch.transaction() as tx:
                await tx.done([3])
                tx.connection["content"] = 6
                raise RuntimeError
        except RuntimeError:
            assert batch.open == [3]

    garden = Garden(handler, batch=10)
    row = await garden.run_once()
    assert (garden.plain.others, garden.ids("new")) == ({"content": 7}, [3])
    assert (result(row)["done"], result(row)["left"]) == (2, 2)


async def test_who_catches_the_error_of_a_move_commits_nothing_that_belongs_to_it() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            tx._moves.move = refuse  # type: ignore[assignment]
            with suppress(LookupError):
                await tx.done(batch.keys)

    async def refuse(*_: object, **__: object) -> list[Any]:
        raise LookupError("a CHECK of the table")

    garden = Garden(handler)
    row = await garden.run_once()
    assert (garden.plain.others, row.failures, row.error and row.error.type) == ({}, 1, "LookupError")


async def test_a_move_that_is_cancelled_commits_nothing_of_its_block() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            tx._moves.move = wait  # type: ignore[assignment]
            move = asyncio.ensure_future(tx.done(batch.keys))
            await begun.wait()
            move.cancel()
            await asyncio.wait([move])

    async def wait(*_: object, **__: object) -> list[Any]:
        begun.set()
        return await asyncio.Future()

    garden, begun = Garden(handler), asyncio.Event()
    said = "batch.transaction(): a move was cancelled; the transaction is rolled back"
    row = await garden.run_once()
    assert (garden.plain.others, row.failures, row.error and row.error.message) == ({}, 1, said)


async def test_a_move_that_is_refused_before_it_is_asked_commits_nothing_of_its_block() -> None:
    async def handler(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            with suppress(ValueError):
                await tx.done([*batch.keys, 99])

    garden = Garden(handler)
    row = await garden.run_once()
    assert (garden.plain.others, row.failures, row.error and row.error.type) == ({}, 1, "ValueError")


@pytest.mark.parametrize("how", ["closed", "lost", "given back"])
async def test_s3_a_transaction_for_rows_that_are_known_to_be_gone_commits_nothing(how: str) -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        await batch.done([1] if len(batches) == 1 else batch.keys)
        if how == "closed" and len(batches) == 1:
            return
        if how == "lost" and len(batches) == 1:
            garden.plain.rows[3,] |= {"since": 0.0}
            assert await batch.done([3]) == []
        if how == "given back" and len(batches) == 1:
            assert await batch.retry([3]) == [3]
        if len(batches) == 1 or how == "closed":
            with pytest.raises(RowsLost, match="3") as caught:
                await apply(batches[0])
            assert caught.value.keys == [3]

    async def apply(batch: Batch) -> None:
        async with batch.transaction() as tx:
            tx.connection["content"] = 7
            await tx.done([3])

    garden = Garden(handler)
    row = await garden.run_once()
    assert (row.state, garden.plain.others) == (State.COMPLETED, {})
    assert len(batches) == 2


async def test_s3_what_is_asked_again_after_an_outage_finishes_no_row_of_the_next_batch() -> None:
    batches, left = list[Batch](), list[asyncio.Task[Any]]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            await batch.done([1])
            garden.table.fail("move")
            left.append(asyncio.ensure_future(batch.done([2, 3])))
            await is_away.wait()
            return
        garden.clock.advance(5)
        assert await left[0] == []
        assert await batch.done(batch.keys) == [2, 3]

    garden, is_away = Garden(handler, owner="holder"), asyncio.Event()
    garden.log.events.on("store.unavailable", lambda _: is_away.set())
    row = await garden.run_once()
    assert (row.state, result(row)["done"], result(row)["lost"]) == (State.COMPLETED, 3, 0)


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


async def test_a_batch_that_has_ended_is_not_alive_any_more() -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        assert await batch.alive()
        await batch.done(batch.keys if len(batches) > 1 else [1])
        assert await batches[0].alive() is (len(batches) == 1)

    row = await Garden(handler, owner="holder").run_once()
    assert (row.state, len(batches)) == (State.COMPLETED, 2)


@pytest.mark.parametrize("owner", [None, "holder"])
async def test_s3_what_a_handler_has_left_running_finishes_no_row_of_the_next_batch(owner: str | None) -> None:
    batches = list[Batch]()

    async def handler(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            await batch.done(batch.keys[:1])
            return
        assert set(batches[0].keys) & set(batch.keys) == {2, 3}
        assert await batches[0].done([2, 3]) == []
        assert batch.open == batch.keys
        await batch.done(batch.keys)

    garden = Garden(handler, owner=owner)
    row = await garden.run_once()
    assert (row.state, result(row)["done"], result(row)["lost"]) == (State.COMPLETED, 3, 0)


@pytest.mark.parametrize("is_caught", [False, True])
async def test_s3_no_effect_is_applied_for_a_row_that_is_somebody_elses(is_caught: bool) -> None:
    errors = list[RowsLost]()

    async def handler(batch: Batch) -> None:
        if errors:
            return
        await garden.plain.release(RowFence(repr(batch.rows[0]["since"]), ""))
        garden.plain.rows[3,] |= {"status": "busy", "since": batch.rows[0]["since"]}  # one of them is still ours
        try:
            async with batch.transaction() as tx:
                tx.connection["content"] = 7
                try:
                    await tx.done(batch.keys)
                except RowsLost:
                    if not is_caught:
                        raise
        except RowsLost as error:
            errors.append(error)
        assert batch.open == [3]
        async with batch.transaction() as tx:
            await tx.done(batch.open)
            tx.connection["content"] = 6

    garden = Garden(handler)
    row = await garden.run_once()
    assert errors[0].keys == [1, 2]
    assert garden.plain.others == {"content": 6}
    assert (result(row)["done"], result(row)["lost"], result(row)["left"]) == (1, 2, 2)


# handlers in a thread


async def test_a_handler_in_a_thread_has_the_same_verbs() -> None:
    def handler(batch: SyncBatch) -> None:
        assert (len(batch), batch.keys, batch.job.attempt) == (3, [1, 2, 3], 1)
        assert batch.done([1]) == [1]
        assert batch.alive()
        with batch.transaction() as tx:
            assert tx.done([2]) == [2]
            tx.connection["content"] = 7
        assert batch.fail([3], "no") == [3]
        assert batch.retry([3]) == []

    garden = Garden(handler, owner="holder", failed="bad")
    row = await garden.run_once()
    assert row.state is State.COMPLETED, row.error
    assert (garden.ids("gone"), garden.ids("bad"), garden.plain.others) == ([1, 2], [3], {"content": 7})


async def test_a_handler_in_a_thread_that_is_cancelled_gives_back_what_is_open_once_it_ends() -> None:
    held = Held()

    def handler(batch: SyncBatch) -> None:
        batch.done([1])
        held.wait_here()

    garden = Garden(handler, count=9)
    jobs = await garden.start()
    await until(held.come.is_set)
    await garden.memory.request_cancel(jobs)
    garden.executor.stop(jobs[0], Stop.CANCELLED)
    await turns()
    assert garden.ids("busy") == [2, 3], "its code has not stopped"
    held.set()
    row = await garden.finish(jobs)
    assert (row.state, garden.ids("gone"), garden.ids("busy")) == (State.CANCELLED, [1], [])
    assert garden.table.calls.count("claim") == 1


async def test_a_thread_that_is_to_stop_does_not_wait_for_a_database_that_is_away() -> None:
    errors = list[str]()

    def handler(batch: SyncBatch) -> None:
        garden.table.fail("move", 100)
        try:
            batch.done([1])
        except asyncio.CancelledError:
            errors.append("cancelled")
            raise

    garden = Garden(handler)
    jobs = await garden.start()
    await until(lambda: "move" in garden.table.calls)
    garden.executor.stop(jobs[0], Stop.DRAINED)
    await turns()
    garden.clock.advance(1)
    row = await garden.finish(jobs)
    assert (row.state, errors, garden.ids("new")) == (State.AVAILABLE, ["cancelled"], [1, 2, 3])


# registration


async def _with_sync(batch: SyncBatch) -> None: ...


def _with_async(batch: Batch) -> None: ...


async def _with_two(batch: Batch, more: int) -> None: ...


def _yields(batch: SyncBatch) -> Any:
    yield batch


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (_with_sync, "in `async def` write `batch: Batch`"),
        (_with_async, "in `def` write `batch: SyncBatch`"),
        (_with_two, "takes one thing, its batch"),
        (_yields, "not a function of a batch"),
        ("pastes", "not a function of a batch"),
    ],
)
def test_a_handler_that_cannot_work_is_refused(handler: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Garden(handler)


def test_a_run_is_an_ordinary_job_that_is_tried_thrice_and_kept_for_an_hour() -> None:
    garden = Garden(finish_all, queue="cleanup")
    task = garden.registry.get("rows.pastes")
    assert task is not None
    assert (task.queue, task.policy.max_attempts, task.policy.max_crashes, task.policy.retention) == ("cleanup", 3, 3, 3600.0)
    with pytest.raises(ConfigurationError, match="registered twice"):
        garden.rows.handler(finish_all)


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


@pytest.mark.parametrize("key", ["id", ("id", "part")])
async def test_however_all_keys_of_a_batch_are_given_its_rows_are_finished_once(key: Any) -> None:
    given: list[Callable[[list[Any]], Any]] = [
        list,
        tuple,
        iter,
        reversed,
        lambda keys: keys + keys,
        lambda keys: dict.fromkeys(keys),
        lambda keys: [each for each in keys if each == keys[0]] + keys[1:],
    ]

    async def handler(batch: Batch) -> None:
        spoilt = batch.keys
        spoilt.clear()
        assert batch.keys == [row["id"] if key == "id" else (row["id"], row["part"]) for row in batch.rows] == batch.open
        assert sorted(await batch.done(given.pop()(batch.keys))) == batch.keys
        assert (batch.open, await batch.done(batch.keys)) == ([], [])

    row = await Garden(handler, count=3 * len(given), key=key).run_once()
    assert (row.state, given) == (State.COMPLETED, [])


def test_s6_what_is_asked_again_after_an_outage_is_not_taken_for_all_that_is_open_by_then() -> None:
    async def handler(batch: Batch) -> None:
        garden.table.fail("move")
        await asyncio.gather(batch.done([1, 2]), batch.done([1, 3]))
        assert batch.open == [4]
        await batch.retry([4])

    async def test() -> None:
        await garden.start()
        await until(lambda: "move" in garden.table.calls)
        garden.clock.advance(5)
        await until(lambda: len(garden.ids("gone")) == 3)
        assert garden.ids("gone") == [1, 2, 3]

    garden = Garden(handler, count=4, batch=4)
    run(test())


def test_s6_once_an_answer_was_lost_rows_are_not_found_by_their_mark_alone() -> None:
    told = list[bool]()

    async def handler(batch: Batch) -> None:
        garden.table.lose_answer("move")
        await batch.done(batch.keys)

    async def test() -> None:
        move = garden.plain.move

        async def listen(*arguments: Any, is_all: bool = False) -> Any:
            told.append(is_all)
            return await move(*arguments, is_all=is_all)

        garden.plain.move = listen  # type: ignore[method-assign]
        await garden.start()
        await until(lambda: bool(told))
        garden.clock.advance(5)
        await until(lambda: len(told) == 2)
        assert told == [True, False]

    garden = Garden(handler)
    run(test())


async def test_part_of_a_batch_is_never_taken_for_all_of_it() -> None:
    async def handler(batch: Batch) -> None:
        assert await batch.done(batch.keys[:1]) == [1]
        assert batch.open == [2, 3]
        async with batch.transaction() as tx:
            assert await tx.done([2]) == [2]
            assert await tx.done([2, 3]) == [3]
            assert await tx.done([3]) == []
        with pytest.raises(ValueError, match="not in this batch: 9"):
            await batch.done([1, 2, 9])

    garden = Garden(handler)
    row = await garden.run_once()
    assert (row.state, garden.ids("gone"), result(row)["done"]) == (State.COMPLETED, [1, 2, 3], 3)
