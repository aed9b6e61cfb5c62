"""Progress is coalesced, checkpoints are durable, and the job's token fences both."""

import asyncio
from uuid import UUID

import pytest

from holdfast._core.job import ActiveJob, State, Token
from holdfast._core.policy import Policy
from holdfast._engine.worker.attempt_calls import AttemptCalls
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.progress_writer import PROGRESS_INTERVAL, URGENT_INTERVAL, ProgressWriter
from holdfast._engine.worker.step_records import StepRecords
from holdfast.errors import JobLost, StoreUnavailable
from holdfast.testing.clock import FakeClock
from tests.engine.support import LEASE, Bench, RecordedReports, turns


class Reports:
    """A store's ``report``: it keeps the updates that it receives, and fails, loses jobs or waits when a test asks for that."""

    def __init__(self) -> None:
        self.reported: list[dict[UUID, dict[str, object]]] = []
        self.orders: list[int] = []
        self.points: list[str | None] = []
        self.lost: frozenset[UUID] = frozenset()
        self.errors = 0
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    async def report(self, updates):  # type: ignore[no-untyped-def]
        by_job = {}
        for update in updates:
            fields = {name: getattr(update, name) for name in ("stage", "fraction", "message", "checkpoint")}
            by_job[update.job] = {name: value for name, value in fields.items() if value is not None}
        self.reported.append(by_job)
        self.orders += [update.order for update in updates]
        self.points += [update.points for update in updates]
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            self.errors -= 1
            raise StoreUnavailable("report")
        return self.lost


class WriterBench:
    def __init__(self, every: float = PROGRESS_INTERVAL) -> None:
        self.clock, self.store = FakeClock(), Reports()
        self.losses, self.reports, bench = list[tuple[UUID, Token]](), RecordedReports(), Bench()
        self.moves = self.reports.moves
        calls = AttemptCalls(bench.environment, self.reports, lost=lambda job, token: self.losses.append((job, token)))
        self.writer = ProgressWriter(
            self.store,  # type: ignore[arg-type]
            self.reports,
            calls,
            ChildJobs(bench.environment, calls),
            StepRecords(self.store, calls, longest_nap=6.0),  # type: ignore[arg-type]
            now=self.clock.monotonic,
            every=every,
        )

    async def step(self) -> float:
        lost, pause = await self.writer.step()
        self.losses += lost
        return pause

    def progress(
        self, job: ActiveJob, stage: str | None = None, fraction: float | None = None, message: str | None = None
    ) -> None:
        self.writer.progress(job, stage=stage, fraction=fraction, message=message)


def active_job(job: int = 1, number: int = 1) -> ActiveJob:
    return ActiveJob(
        id=UUID(int=job),
        token=Token(UUID(int=9), number),
        lease=LEASE.id,
        task="t",
        state=State.RUNNING,
        attempt=1,
        failures=0,
        crashes=0,
        policy=Policy(),
    )


A, B = UUID(int=1), UUID(int=2)


async def test_progress_is_written_at_once_then_once_an_interval_the_latest_of_each_field() -> None:
    bench = WriterBench()
    bench.progress(active_job(), stage="clone", fraction=0.1)
    assert await bench.writer.wake.wait(0)
    await bench.step()
    bench.progress(active_job(), fraction=0.2, message="one")
    bench.progress(active_job(), fraction=0.3)
    assert await bench.writer.wake.wait(0)
    wait = await bench.step()
    assert wait == PROGRESS_INTERVAL
    assert len(bench.store.reported) == 1
    bench.clock.advance(wait)
    await bench.step()
    assert bench.store.reported == [
        {A: {"stage": "clone", "fraction": 0.1}},
        {A: {"fraction": 0.3, "message": "one"}},
    ]


async def test_the_first_progress_of_a_job_and_another_stage_are_written_at_once_ten_times_a_second_at_most() -> None:
    bench = WriterBench(every=60.0)
    for job, stage in ((1, "clone"), (1, "walk"), (2, "clone")):
        bench.progress(active_job(job), stage=stage)
        assert await bench.writer.wake.wait(0)
        assert await bench.step() in (URGENT_INTERVAL, 60.0 * 60)
        bench.clock.advance(URGENT_INTERVAL)
        await bench.step()
    bench.progress(active_job(2), stage="clone", fraction=0.5)
    bench.clock.advance(URGENT_INTERVAL)
    assert await bench.step() == pytest.approx(60.0 - 2 * URGENT_INTERVAL)
    assert bench.store.reported == [{A: {"stage": "clone"}}, {A: {"stage": "walk"}}, {B: {"stage": "clone"}}]


async def test_a_stage_that_the_store_did_not_answer_is_sent_again_at_once() -> None:
    bench = WriterBench(every=60.0)
    bench.progress(active_job(), stage="clone")
    await bench.step()
    bench.clock.advance(URGENT_INTERVAL)
    bench.progress(active_job(), stage="walk")
    bench.store.errors = 1
    with pytest.raises(StoreUnavailable):
        await bench.writer.step()
    await bench.step()
    assert bench.store.reported == [{A: {"stage": "clone"}}, {A: {"stage": "walk"}}, {A: {"stage": "walk"}}]


async def test_nothing_is_written_without_an_update() -> None:
    bench = WriterBench()
    assert await bench.step() >= PROGRESS_INTERVAL
    assert bench.store.reported == []


async def test_alive_is_written_although_it_carries_no_fields() -> None:
    bench = WriterBench()
    bench.progress(active_job())
    await bench.step()
    assert bench.store.reported == [{A: {}}]


async def test_a_checkpoint_returns_only_when_the_store_has_it_and_does_not_wait_for_the_interval() -> None:
    bench = WriterBench()
    bench.progress(active_job(), fraction=0.1)
    await bench.step()
    bench.store.gate = asyncio.Event()
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    await turns()
    bench.store.entered.clear()
    step = asyncio.ensure_future(bench.step())
    await bench.store.entered.wait()
    await turns()
    assert not saving.done()
    bench.store.gate.set()
    await step
    await saving
    assert bench.store.reported[-1] == {A: {"checkpoint": b"7"}}


async def test_a_checkpoint_of_a_lost_job_raises_job_lost_and_its_neighbour_is_saved() -> None:
    bench = WriterBench()
    bench.store.lost = frozenset({A})
    lost = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    kept = asyncio.ensure_future(bench.writer.checkpoint(active_job(2), b"8"))
    await turns()
    await bench.step()
    with pytest.raises(JobLost):
        await lost
    await kept
    assert bench.losses == [(A, active_job().token)]


async def test_s15_after_an_unknown_report_the_same_updates_are_sent_again_and_newer_fields_win() -> None:
    bench = WriterBench()
    bench.store.errors = 1
    bench.store.gate = asyncio.Event()
    bench.progress(active_job(), stage="clone", fraction=0.1)
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    await turns()
    step = asyncio.ensure_future(bench.step())
    await bench.store.entered.wait()
    bench.progress(active_job(), fraction=0.2)
    bench.progress(active_job(2), stage="walk")
    bench.store.gate.set()
    with pytest.raises(StoreUnavailable):
        await step
    assert not saving.done()
    await bench.step()
    await saving
    assert bench.store.reported[-1] == {A: {"stage": "clone", "fraction": 0.2, "checkpoint": b"7"}, B: {"stage": "walk"}}


async def test_each_update_has_a_larger_number_so_that_a_late_copy_of_an_older_one_undoes_nothing() -> None:
    bench = WriterBench()
    for number in range(3):
        bench.progress(active_job(), stage=str(number))
        bench.progress(active_job(), fraction=number / 3)
        await bench.step()
        bench.clock.advance(PROGRESS_INTERVAL)
    bench.progress(active_job(), message="the final update")
    bench.writer.forget(active_job())
    await bench.writer.write_final_updates()
    assert bench.store.orders == [2, 4, 6, 7]


async def test_updates_that_come_during_a_report_are_written_with_the_next_one() -> None:
    bench = WriterBench()
    bench.store.gate = asyncio.Event()
    first = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"1"))
    await turns()
    step = asyncio.ensure_future(bench.step())
    await bench.store.entered.wait()
    second = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"2"))
    await turns()
    bench.store.gate.set()
    assert await step == PROGRESS_INTERVAL
    await first
    assert not second.done()
    await bench.step()
    await second
    assert bench.store.reported[-1][A]["checkpoint"] == b"2"


async def test_nothing_is_written_for_a_handler_that_has_ended() -> None:
    bench = WriterBench()
    bench.progress(active_job(), fraction=0.9)
    bench.writer.forget(active_job())
    await bench.step()
    assert bench.store.reported == []


async def test_the_final_updates_of_a_handler_are_written_once_before_its_outcome() -> None:
    bench = WriterBench()
    bench.progress(active_job(), fraction=1.0)
    bench.writer.forget(active_job())
    await bench.writer.write_final_updates()
    await bench.writer.write_final_updates()
    assert bench.store.reported == [{UUID(int=1): {"fraction": 1.0}}]


async def test_final_updates_that_cannot_be_written_do_not_delay_the_outcome() -> None:
    bench = WriterBench()
    bench.store.errors = 1
    bench.progress(active_job(), fraction=1.0)
    bench.writer.forget(active_job())
    await bench.writer.write_final_updates()
    await bench.writer.write_final_updates()
    assert len(bench.store.reported) == 1


async def test_every_update_of_a_handler_counts_as_a_move_at_once() -> None:
    bench = WriterBench()
    bench.progress(active_job(), fraction=0.5)
    bench.progress(active_job())
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    await turns()
    assert bench.moves == [UUID(int=1)] * 3
    await bench.step()
    await saving


async def test_l8_a_handler_whose_checkpoint_waits_for_the_store_does_not_stall() -> None:
    bench = WriterBench()
    bench.store.gate = asyncio.Event()
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(1), b"1"))
    bench.progress(active_job(2), stage="half")
    await turns()
    step = asyncio.ensure_future(bench.step())
    for _ in range(3):
        bench.moves.clear()
        bench.reports.tell_latest()
        assert bench.moves == [A], "only the job that waits counts as moving: its neighbour reports its own moves"
    bench.moves.clear()
    bench.store.gate.set()
    await asyncio.gather(step, saving)
    bench.reports.tell_latest()
    assert bench.moves == [], "its code runs again, and reports for itself"


async def test_l8_a_handler_that_is_to_stop_does_not_count_as_waiting_for_the_store() -> None:
    bench = WriterBench()
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    await turns()
    bench.writer.interrupt(active_job())
    await asyncio.wait({saving})
    bench.moves.clear()
    bench.reports.tell_latest()
    assert (saving.cancelled(), bench.moves) == (True, [])


async def test_a_checkpoint_that_waits_is_cancelled_when_its_handler_has_ended() -> None:
    bench = WriterBench()
    saving = asyncio.ensure_future(bench.writer.checkpoint(active_job(), b"7"))
    await turns()
    bench.writer.forget(active_job())
    with pytest.raises(asyncio.CancelledError):
        await saving


async def test_s15_an_unknown_report_does_not_restore_the_updates_of_a_handler_that_has_ended() -> None:
    bench = WriterBench()
    bench.store.errors, bench.store.gate = 1, asyncio.Event()
    bench.progress(active_job(), fraction=0.9)
    step = asyncio.ensure_future(bench.step())
    await bench.store.entered.wait()
    bench.writer.forget(active_job())
    bench.store.gate.set()
    with pytest.raises(StoreUnavailable):
        await step
    bench.clock.advance(PROGRESS_INTERVAL)
    await bench.step()
    assert len(bench.store.reported) == 1


async def test_updates_of_an_earlier_attempt_are_forgotten_and_not_merged_into_the_next() -> None:
    bench = WriterBench()
    bench.progress(active_job(number=1), stage="clone", fraction=0.9)
    bench.progress(active_job(number=2), fraction=0.1)
    bench.writer.forget(active_job(number=1))
    await bench.step()
    assert bench.store.reported == [{A: {"fraction": 0.1}}]


async def test_s3_the_loss_of_an_earlier_attempt_names_its_token() -> None:
    bench = WriterBench()
    bench.store.lost, bench.store.gate = frozenset({A}), asyncio.Event()
    bench.progress(active_job(number=1), fraction=0.9)
    step = asyncio.ensure_future(bench.step())
    await bench.store.entered.wait()
    bench.writer.forget(active_job(number=1))
    bench.progress(active_job(number=2), fraction=0.1)
    bench.store.gate.set()
    await step
    assert bench.losses == [(A, active_job(number=1).token)]


async def test_all_reports_of_an_attempt_are_in_the_points_of_the_writes_that_are_made_anyway() -> None:
    bench = WriterBench()
    begun = bench.clock.monotonic()
    bench.writer.begun_at = {UUID(int=1): begun}.get
    for second in range(4):
        bench.clock.advance(0.5)
        bench.progress(active_job(), stage="read" if second < 2 else "count", fraction=second / 10)
        await bench.step()
    assert bench.store.points == ['[[0.5,0.0,"read"],null]', '[[0.5,0.0,"read"],[1.0,0.1],[1.5,0.2,"count"],null]']
    bench.writer.forget(active_job())
    await bench.writer.write_final_updates()
    assert bench.store.points[2] == '[[0.5,0.0,"read"],[1.0,0.1],[1.5,0.2,"count"],[2.0,0.3],null]'


async def test_each_attempt_begins_new_points_and_a_checkpoint_has_none() -> None:
    bench = WriterBench()
    bench.progress(active_job(number=1), fraction=0.5)
    await bench.step()
    bench.progress(active_job(number=2), message="again")
    bench.clock.advance(PROGRESS_INTERVAL)
    await bench.step()
    saved = asyncio.ensure_future(bench.writer.checkpoint(active_job(job=2), b"1"))
    await turns()
    await bench.step()
    await saved
    assert bench.store.points == ["[[0.0,0.5],null]", '["again"]', None]
