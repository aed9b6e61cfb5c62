"""Every verdict of the checker on schedules: histories in which S14 and L15 hold, and for each rule one in which they do not."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State
from holdfast._core.schedule import Overlap
from holdfast._core.ticks import Every
from proof.checker.history import FAIL_OVER, By, History, JobRow, Phase, ScheduleRow
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import JOB, NO_CLAIM, Tale

START = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "s"
OPEN = Rules(is_complete=False)
SOON = Rules(is_complete=False, tick_bound=5.0)
CALMED = Rules(is_complete=False, tick_bound=5.0, is_always_calm=False)


def tick(number: int) -> datetime:
    """The tick of that number: there is one every ten seconds."""
    return START + timedelta(seconds=10 * number)


class Ticks(Tale):
    """A tale of one schedule; the store's clock shows the time of the tale."""

    def __init__(self, **row: object) -> None:
        super().__init__()
        self.schedule: ScheduleRow | None = None
        self.moves = 0
        self.change(**row)

    @property
    def at(self) -> datetime:
        return START + timedelta(seconds=self.time)

    def until(self, number: float) -> "Ticks":
        """Let the time pass until that number of intervals is over."""
        self.time = 10 * number
        return self

    def change(self, verb: str = "set_schedule", **changes: object) -> "Ticks":
        """Define the schedule, or change its row."""
        before = self.schedule
        first = ScheduleRow(at=self.at, when=Every(10_000_000), anchor=START, next_at=tick(1))
        self.schedule = structs.replace(first if before is None else before, at=self.at, **changes)
        return self._write(verb, before)

    def remove(self) -> "Ticks":
        before, self.schedule = self.schedule, None
        return self._write("remove_schedule", before)

    def store(self, number: int, **row: object) -> "Ticks":
        """Store the job of a tick."""
        after = JobRow(**{"state": State.AVAILABLE, "token": NO_CLAIM, **row})  # type: ignore[arg-type]
        by = By("advance", call=UUID(int=self.moves), outcome=NAME)
        self.say("job", Phase.TRUTH, job=UUID(int=1000 + number), before=None, after=after, by=by)
        return self

    def send(self) -> "Ticks":
        """Read which schedules are due, and send a move."""
        self.moves += 1
        self.say("ticks", Phase.OK, note=self.at.isoformat())
        return self._call(Phase.INVOKE)

    def answer(self, text: str) -> "Ticks":  # type: ignore[override]
        return self._call(Phase.OK, text)

    def move(self, number: int, *, then: int | None = None, job: int | None = None, by: str = "advance") -> "Ticks":
        """Move the schedule on from that tick. ``job``: the number of the job that was its last one then."""
        last_job = None if self.schedule is None else self.schedule.last_job
        last_job = last_job if job is None else UUID(int=1000 + job)
        following = tick(number + 1 if then is None else then)
        return self.change(by, last_tick=tick(number), next_at=following, last_job=last_job)

    def fire(self, number: int, *, then: int | None = None) -> "Ticks":
        """Fire a tick in one write, and answer."""
        return self.send().store(number).move(number, then=then, job=number).answer("fired")

    def _call(self, phase: Phase, note: str = "") -> "Ticks":
        self.say("advance", phase, by=By("advance", call=UUID(int=self.moves), outcome=NAME), note=note)
        return self

    def _write(self, verb: str, before: ScheduleRow | None) -> "Ticks":
        by = By(verb, call=UUID(int=self.moves) if verb == "advance" else None)
        self.say("schedule", Phase.TRUTH, before=before, after=self.schedule, by=by, note=NAME)
        return self


def ended(tale: Ticks, number: int) -> Ticks:
    """The job of that tick is cancelled."""
    row = JobRow(State.AVAILABLE, NO_CLAIM)
    after = structs.replace(row, state=State.CANCELLED)
    tale.say("job", Phase.TRUTH, job=UUID(int=1000 + number), before=row, after=after, by=By("request_cancel"))
    return tale


def busy(overlap: Overlap) -> Ticks:
    """The job of the first tick has not finished at the second one."""
    return Ticks(overlap=overlap).until(1).fire(1).until(2)


def calmed(number: float) -> Ticks:
    """All faults end when that number of intervals is over."""
    tale = Ticks().until(number)
    tale.calm()
    return tale


def late(catch_up: int, number: float = 5.5) -> Ticks:
    """The ticks from the first one on were missed."""
    return Ticks(catch_up=catch_up, grace=2.0).until(number)


PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules of both histories, one in which it holds and one in which it does not
    "a tick is fired once": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(2).fire(1).fire(1)),
    "a tick fires when it is due": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(0.5).fire(1)),
    "a paused schedule fires nothing": (
        "S14",
        OPEN,
        Ticks().change(is_paused=True).change(is_paused=False).until(1).fire(1),
        Ticks().change(is_paused=True).until(1).fire(1),
    ),
    "the next tick follows from the tick": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(3).fire(1, then=4)),
    "a tick has a job": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(1).send().move(1)),
    "a tick has one job": (
        "S14",
        OPEN,
        Ticks(overlap=Overlap.QUEUE).until(1).fire(1).until(2).fire(2),
        Ticks().until(1).send().store(1).store(2).move(1, job=1),
    ),
    "the job of a tick is stored with the move": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(1).send().store(1)),
    "no change comes between a job and its move": (
        "S14",
        OPEN,
        Ticks().until(1).fire(1).change(),
        Ticks().until(1).send().store(1).change().move(1, job=1),
    ),
    "a schedule remembers its last job": (
        "S14",
        OPEN,
        Ticks().until(1).fire(1),
        Ticks().until(1).send().store(1).move(1, job=7),
    ),
    "a move has a tick": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(1).send().change("advance", next_at=tick(2))),
    "a change leaves the last tick alone": (
        "S14",
        OPEN,
        Ticks().until(1).fire(1).change(grace=1.0),
        Ticks().until(1).fire(1).change(last_tick=None),
    ),
    "a change brings no tick again": (
        "S14",
        OPEN,
        Ticks().until(1).fire(1).change(next_at=tick(3)),
        Ticks().until(1).fire(1).change(next_at=tick(1)),
    ),
    "of missed ticks the newest fires": ("S14", OPEN, late(1).fire(5), late(1).fire(4)),
    "the newest missed ticks fire in order": (
        "S14",
        OPEN,
        ended(late(2).fire(4), 4).fire(5),
        late(2).fire(5),
    ),
    "missed ticks are dropped": ("S14", OPEN, late(0).send().move(5).answer("dropped"), late(0).fire(5)),
    "a tick within its grace is not missed": ("S14", OPEN, late(0, 1.1).fire(1), late(0, 1.1).send().move(1)),
    "a tick is left out while the last job has not finished": (
        "S14",
        OPEN,
        busy(Overlap.SKIP).send().move(2).answer("skipped"),
        busy(Overlap.SKIP).fire(2),
    ),
    "a tick is not left out when the last job has finished": (
        "S14",
        OPEN,
        ended(busy(Overlap.SKIP), 1).fire(2),
        ended(busy(Overlap.SKIP), 1).send().move(2),
    ),
    "the job of a tick may wait beside the last one": (
        "S14",
        OPEN,
        busy(Overlap.QUEUE).fire(2),
        busy(Overlap.QUEUE).send().move(2).answer("skipped"),
    ),
    "the last job is cancelled": (
        "S14",
        OPEN,
        ended(busy(Overlap.CANCEL).send(), 1).store(2).move(2, job=2),
        busy(Overlap.CANCEL).fire(2),
    ),
    "an answer 'fired' means a job": ("S14", OPEN, Ticks().until(1).fire(1), Ticks().until(1).send().answer("fired")),
    "an answer 'skipped' means no job": (
        "S14",
        OPEN,
        busy(Overlap.SKIP).send().move(2).answer("skipped"),
        Ticks().until(1).send().store(1).move(1, job=1).answer("skipped"),
    ),
    "a move that was made is not called lost": (
        "S14",
        OPEN,
        Ticks().until(1).fire(1).change().answer("lost"),
        Ticks().until(1).fire(1).answer("lost"),
    ),
    "a due tick fires soon": ("L15", SOON, Ticks().until(1.4).fire(1), Ticks().until(1.6).fire(1)),
    "a due tick is not forgotten": (
        "L15",
        SOON,
        Ticks().until(1.4).fire(1).until(2.4).calm(),
        Ticks().until(1.4).fire(1).until(2.6).calm(),
    ),
    "a due tick fires soon after an outage": (
        "L15",
        CALMED,
        calmed(3).until(3.4).remove(),
        calmed(3).until(3.6).remove(),
    ),
    "a change does not hide a tick that was due for long": (
        "L15",
        SOON,
        Ticks().until(1.4).change(next_at=tick(2)),
        Ticks().until(1.6).change(next_at=tick(2)),
    ),
    "missed ticks fire one soon after the other": (
        "L15",
        SOON,
        Ticks(overlap=Overlap.QUEUE).change(next_at=tick(-9)).until(0.4).move(-9).until(0.8).move(-8),
        Ticks(overlap=Overlap.QUEUE).change(next_at=tick(-9)).until(0.4).move(-9).until(1.0).move(-8),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_of_schedules_knows_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    assert not bad.check(rules).verdict(wanted)
    report = good.check(rules)
    assert not report.violations, report.explain(History(good.events))
    assert report.checked[wanted]


def test_a_paused_schedule_and_one_whose_last_job_is_locked_are_late_for_nothing() -> None:
    assert Ticks().change(is_paused=True).until(9).change(is_paused=False).check(SOON).verdict("L15")
    tale = Ticks(last_job=JOB, last_tick=tick(0), overlap=Overlap.CANCEL).until(1.9)
    tale.events[:0] = Tale().say("row.lock", Phase.LIFE, "a stranger", job=JOB).events
    tale.say("row.unlock", Phase.LIFE, "a stranger", job=JOB)
    assert tale.until(2.2).remove().check(SOON).verdict("L15")
    assert not tale.check(Rules(is_complete=False, tick_bound=2.0)).verdict("L15")


def test_a_store_that_forgets_may_fire_a_tick_again() -> None:
    tale = Ticks(overlap=Overlap.QUEUE).until(1)
    forgotten = tale.schedule
    tale.fire(1)
    assert forgotten is not None
    before, tale.schedule = tale.schedule, forgotten
    tale.say("schedule", Phase.TRUTH, before=before, after=forgotten, by=By(FAIL_OVER), note=NAME)
    assert tale.fire(1).check(OPEN).verdict("S14")


def test_the_story_of_a_broken_schedule_has_its_moves() -> None:
    tale = busy(Overlap.SKIP).fire(2).change(is_paused=True).remove()
    story = tale.check(OPEN).explain(History(tale.events))
    assert "m-1-1 moves schedule s on from its tick 00:00:10.000000, at 00:00:10.300000: the next one is 00:00:20.000000" in story
    assert "stored 1 jobs with the move of its schedule, instead of 0" in story
    ended_late = Ticks().change(is_paused=True).change(is_paused=False).until(2).remove()
    story = ended_late.check(SOON).explain(History(ended_late.events))
    assert "changes schedule s at 00:00:00.100000, whose last tick is none: it is paused" in story
    assert "removes schedule s" in story
