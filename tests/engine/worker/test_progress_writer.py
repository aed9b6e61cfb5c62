"""Progress is coalesced, checkpoints are durable, both are fenced by their token."""

import asyncio
from uuid import UUID

import pytest

from holdfast._core.job import ActiveJob, State, Token
from holdfast._core.policy import Policy
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.progress_writer import PROGRESS_INTERVAL, ProgressWriter
from holdfast.errors import JobLost, StoreUnavailable
from holdfast.testing.clock import FakeClock
from tests.engine.support import LEASE, Bench, RecordedReports, turns


class Reports:
    """A store's ``report``: notes what it is told; fails, loses jobs or waits when asked to."""

    def __init__(self) -> None:
        self.told: list[dict[UUID, dict[str, object]]] = []
        self.orders: list[int] = []
        self.lost: frozenset[UUID] = frozenset()
        self.errors = 0
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()

    async def report(self, updates):  # type: ignore[no-untyped-def]
        said = {}
        for update in updates:
            fields = {name: getattr(update, name) for name in ("stage", "fraction", "message", "checkpoint")}
            said[update.job] = {name: value for name, value in fields.items() if value is not None}
        self.told.append(said)
        self.orders += [update.order for update in updates]
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            self.errors -= 1
            raise StoreUnavailable("report")
        return self.lost


class Desk:
    def __init__(self) -> None:
        self.clock, self.store = FakeClock(), Reports()
        self.losses, self.reports, bench = list[tuple[UUID, Token]](), RecordedReports(), Bench()
        self.moves = self.reports.moves
        self.writer = ProgressWriter(
            self.store,  # type: ignore[arg-type]
            self.reports,
            ChildJobs(bench.environment, lost=lambda job, token: self.losses.append((job, token))),
            now=self.clock.monotonic,
        )

    async def step(self) -> float:
        lost, pause = await self.writer.step()
        self.losses += lost
        return pause

    def say(self, hold: ActiveJob, stage: str | None = None, fraction: float | None = None, message: str | None = None) -> None:
        self.writer.progress(hold, stage=stage, fraction=fraction, message=message)


def hold(job: int = 1, number: int = 1) -> ActiveJob:
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
    desk = Desk()
    desk.say(hold(), stage="clone", fraction=0.1)
    assert await desk.writer.wake.wait(0)
    await desk.step()
    desk.say(hold(), fraction=0.2, message="one")
    desk.say(hold(), fraction=0.3)
    desk.say(hold(2), stage="walk")
    assert await desk.writer.wake.wait(0)
    wait = await desk.step()
    assert wait == PROGRESS_INTERVAL
    assert len(desk.store.told) == 1
    desk.clock.advance(wait)
    await desk.step()
    assert desk.store.told == [
        {A: {"stage": "clone", "fraction": 0.1}},
        {A: {"fraction": 0.3, "message": "one"}, B: {"stage": "walk"}},
    ]


async def test_nothing_is_written_when_nothing_was_said() -> None:
    desk = Desk()
    assert await desk.step() >= PROGRESS_INTERVAL
    assert desk.store.told == []


async def test_alive_is_written_although_it_brings_no_news() -> None:
    desk = Desk()
    desk.say(hold())
    await desk.step()
    assert desk.store.told == [{A: {}}]


async def test_a_checkpoint_returns_only_when_the_store_has_it_and_does_not_wait_for_the_interval() -> None:
    desk = Desk()
    desk.say(hold(), fraction=0.1)
    await desk.step()
    desk.store.gate = asyncio.Event()
    saving = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"7"))
    await turns()
    desk.store.entered.clear()
    step = asyncio.ensure_future(desk.step())
    await desk.store.entered.wait()
    await turns()
    assert not saving.done()
    desk.store.gate.set()
    await step
    await saving
    assert desk.store.told[-1] == {A: {"checkpoint": b"7"}}


async def test_a_checkpoint_of_a_lost_job_raises_job_lost_and_its_neighbour_is_saved() -> None:
    desk = Desk()
    desk.store.lost = frozenset({A})
    lost = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"7"))
    kept = asyncio.ensure_future(desk.writer.checkpoint(hold(2), b"8"))
    await turns()
    await desk.step()
    with pytest.raises(JobLost):
        await lost
    await kept
    assert desk.losses == [(A, hold().token)]


async def test_s15_after_an_unknown_report_the_same_is_sent_again_and_newer_words_win() -> None:
    desk = Desk()
    desk.store.errors = 1
    desk.store.gate = asyncio.Event()
    desk.say(hold(), stage="clone", fraction=0.1)
    saving = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"7"))
    await turns()
    step = asyncio.ensure_future(desk.step())
    await desk.store.entered.wait()
    desk.say(hold(), fraction=0.2)
    desk.say(hold(2), stage="walk")
    desk.store.gate.set()
    with pytest.raises(StoreUnavailable):
        await step
    assert not saving.done()
    await desk.step()
    await saving
    assert desk.store.told[-1] == {A: {"stage": "clone", "fraction": 0.2, "checkpoint": b"7"}, B: {"stage": "walk"}}


async def test_each_update_has_a_larger_number_so_that_a_late_copy_of_an_older_one_undoes_nothing() -> None:
    desk = Desk()
    for number in range(3):
        desk.say(hold(), stage=str(number))
        desk.say(hold(), fraction=number / 3)
        await desk.step()
        desk.clock.advance(PROGRESS_INTERVAL)
    desk.say(hold(), message="the last words")
    desk.writer.forget(hold())
    await desk.writer.write_final_updates()
    assert desk.store.orders == [2, 4, 6, 7]


async def test_what_was_said_while_a_report_was_on_its_way_is_written_with_the_next() -> None:
    desk = Desk()
    desk.store.gate = asyncio.Event()
    first = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"1"))
    await turns()
    step = asyncio.ensure_future(desk.step())
    await desk.store.entered.wait()
    second = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"2"))
    await turns()
    desk.store.gate.set()
    assert await step == PROGRESS_INTERVAL
    await first
    assert not second.done()
    await desk.step()
    await second
    assert desk.store.told[-1][A]["checkpoint"] == b"2"


async def test_nothing_is_written_for_a_handler_that_has_ended() -> None:
    desk = Desk()
    desk.say(hold(), fraction=0.9)
    desk.writer.forget(hold())
    await desk.step()
    assert desk.store.told == []


async def test_the_last_words_of_a_handler_are_written_once_before_its_outcome() -> None:
    desk = Desk()
    desk.say(hold(), fraction=1.0)
    desk.writer.forget(hold())
    await desk.writer.write_final_updates()
    await desk.writer.write_final_updates()
    assert desk.store.told == [{UUID(int=1): {"fraction": 1.0}}]


async def test_last_words_that_cannot_be_written_do_not_keep_an_outcome_waiting() -> None:
    desk = Desk()
    desk.store.errors = 1
    desk.say(hold(), fraction=1.0)
    desk.writer.forget(hold())
    await desk.writer.write_final_updates()
    await desk.writer.write_final_updates()
    assert len(desk.store.told) == 1


async def test_every_word_of_a_handler_is_a_move_when_it_is_said() -> None:
    desk = Desk()
    desk.say(hold(), fraction=0.5)
    desk.say(hold())
    saving = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"7"))
    await turns()
    assert desk.moves == [UUID(int=1)] * 3
    await desk.step()
    await saving


async def test_nobody_is_left_waiting_for_a_checkpoint_of_a_handler_that_has_ended() -> None:
    desk = Desk()
    saving = asyncio.ensure_future(desk.writer.checkpoint(hold(), b"7"))
    await turns()
    desk.writer.forget(hold())
    with pytest.raises(asyncio.CancelledError):
        await saving


async def test_s15_an_unknown_report_does_not_bring_back_the_words_of_a_handler_that_ended_meanwhile() -> None:
    desk = Desk()
    desk.store.errors, desk.store.gate = 1, asyncio.Event()
    desk.say(hold(), fraction=0.9)
    step = asyncio.ensure_future(desk.step())
    await desk.store.entered.wait()
    desk.writer.forget(hold())
    desk.store.gate.set()
    with pytest.raises(StoreUnavailable):
        await step
    desk.clock.advance(PROGRESS_INTERVAL)
    await desk.step()
    assert len(desk.store.told) == 1


async def test_what_an_earlier_attempt_said_is_forgotten_and_not_merged_into_the_next() -> None:
    desk = Desk()
    desk.say(hold(number=1), stage="clone", fraction=0.9)
    desk.say(hold(number=2), fraction=0.1)
    desk.writer.forget(hold(number=1))
    await desk.step()
    assert desk.store.told == [{A: {"fraction": 0.1}}]


async def test_s3_the_loss_of_an_earlier_attempt_names_its_token() -> None:
    desk = Desk()
    desk.store.lost, desk.store.gate = frozenset({A}), asyncio.Event()
    desk.say(hold(number=1), fraction=0.9)
    step = asyncio.ensure_future(desk.step())
    await desk.store.entered.wait()
    desk.writer.forget(hold(number=1))
    desk.say(hold(number=2), fraction=0.1)
    desk.store.gate.set()
    await step
    assert desk.losses == [(A, hold(number=1).token)]
