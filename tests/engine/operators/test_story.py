"""The beats that a story shows: those of workers that had the job for long enough, and of no others."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec import structs

from holdfast import App
from holdfast._core.answers import BeatView
from holdfast._core.job import AttemptOutcome
from holdfast._core.story import story_of
from holdfast._core.view import AttemptView
from holdfast._engine.operators.operators import Workers
from holdfast._engine.operators.story import MOST_WORKERS, story_facts
from holdfast.errors import Unsupported

START = datetime(2030, 1, 31, 8, 0, tzinfo=UTC)


class Histories:
    """The history of workers: a beat a minute of each, newest first; it keeps the names that were asked for."""

    def __init__(self, *, is_supported: bool = True) -> None:
        self.asked: list[str] = []
        self._is_supported = is_supported

    async def ahistory(self, name: str) -> list[BeatView]:
        self.asked.append(name)
        if not self._is_supported:
            raise Unsupported("no history")
        unknown = {"running": None, "claimed": None, "memory": None, "loop_lag": None, "answered_at": None}
        return [BeatView(worker=name, at=START + timedelta(minutes=n), slots=1, **unknown) for n in range(9, -1, -1)]  # type: ignore[arg-type]


def attempt(number: int, begin: float, end: float) -> AttemptView:
    at = [START + timedelta(seconds=seconds) for seconds in (begin, end)]
    return AttemptView(
        attempt=number,
        worker=f"w{number}",
        outcome=AttemptOutcome.RELEASED,
        error=None,
        started_at=at[0],
        ended_at=at[1],
        signal=None,
        stacks=None,
        late_result=None,
    )


async def test_the_beats_of_long_attempts_are_read_and_drawn_within_them() -> None:
    app, histories = App("memory://"), Histories()

    @app.task
    async def work() -> None: ...

    job = await app.jobs.aget((await app.aenqueue("work")).id)
    attempts = (attempt(1, 0, 30), attempt(2, 30, 200), *(attempt(n, 300, 400) for n in range(3, 20)))
    job = structs.replace(job, created_at=START, attempts=attempts[:2], attempt=2)
    facts = await story_facts(cast(Workers, histories), job, START)
    assert histories.asked == ["w2"]
    assert [lane.beats for lane in story_of(job, job.attempts, START, facts).lanes] == [(), (60.0, 120.0, 180.0)]

    many = structs.replace(job, attempts=attempts)
    await story_facts(cast(Workers, histories), many, START)
    assert histories.asked[1:] == [f"w{n}" for n in range(19, 19 - MOST_WORKERS, -1)]
    without: Any = Histories(is_supported=False)
    assert (await story_facts(without, many, START)).beats == {}
    assert len(without.asked) == 1
