"""The history: what workers did in each minute is kept as it was given, for a day."""

from datetime import datetime, timedelta

from msgspec import structs

from holdfast._core.history import HISTORY_RETENTION, MinuteNote, TaskMinute
from holdfast._engine import store_defaults
from holdfast._ports.history import History
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import EARLY, Part, Scene, needs, story

ODD = 'w"1\ud800\u2028'
TASKS = (TaskMinute("a", "t", {"completed": 3, "failed": 1}, (0, 4), (2, 0, 1), 1), TaskMinute("b", "ünï"))


async def refused(at: Scene) -> None:
    """Check that a store without a history is known as such."""
    assert not store_defaults.has_minutes(at.store)
    try:
        store_defaults.history(at.store)
    except Unsupported:
        return
    raise AssertionError("a store without a history offers one")


def note(at: Scene, worker: str = "w", tasks: tuple[TaskMinute, ...] = TASKS) -> MinuteNote:
    """Make a note on one minute of a worker."""
    return MinuteNote(
        id=at.chance.uuid7(), worker=worker, seconds=60.0, slots=9, in_use=2.5, memory=2**40, loop_lag=0.25, tasks=tasks
    )


async def clock_of(at: Scene) -> datetime:
    """Return the time on the store's clock."""
    (job,) = await at.enqueue(at.new())
    return (await at.row(job)).created_at


async def workers(at: Scene, since: datetime, until: datetime, limit: int = 100) -> list[str]:
    """Return the workers of the rows of that time, newest first."""
    return [row.note.worker for row in await store_defaults.history(at.store).minutes(since, until, limit)]


class HistoryContract(Part):
    """What is promised about the minutes of workers."""

    @story
    @needs(History, refused)
    async def test_a_minute_is_kept_as_it_was_given_once_and_with_the_time_of_the_store(self, at: Scene) -> None:
        verbs, notes = store_defaults.history(at.store), [note(at), note(at, ODD, ())]
        now = await clock_of(at)
        for _ in range(2):
            await verbs.record_minutes(notes)
            at.advance(10.0)
        found = await verbs.minutes(now - timedelta(seconds=60), now + timedelta(seconds=60), 10)
        assert len(found) == 2
        assert all(abs((row.at - now).total_seconds()) < EARLY for row in found)
        by_id = {row.note.id: row.note for row in found}
        assert by_id[notes[0].id] == notes[0]
        assert structs.replace(by_id[notes[1].id], worker="") == structs.replace(notes[1], worker="")
        assert by_id[notes[1].id].worker.startswith('w"1')
        await verbs.record_minutes([])

    @story
    @needs(History, refused)
    async def test_minutes_are_read_newest_first_and_bounded(self, at: Scene) -> None:
        now = await clock_of(at)
        for worker in ("1", "2", "3", "4"):
            at.advance(60.0)
            await store_defaults.history(at.store).record_minutes([note(at, worker)])
        since, until = (now + timedelta(seconds=seconds) for seconds in (90, 210))
        assert await workers(at, since, until) == ["3", "2"]
        assert await workers(at, since, until, 1) == ["3"]
        assert await workers(at, until, since) == []

    @story
    @needs(History, refused)
    async def test_minutes_older_than_a_day_are_deleted_by_the_writes_of_later_ones(self, at: Scene) -> None:
        verbs, now = store_defaults.history(at.store), await clock_of(at)
        beyond = now + timedelta(days=9)
        await verbs.record_minutes([note(at, "old")])
        at.advance(60.0)
        await verbs.record_minutes([note(at, "new")])
        at.advance(HISTORY_RETENTION - 30.0)
        assert await workers(at, now - timedelta(1), beyond) == ["new", "old"]
        await verbs.record_minutes([note(at, "last")])
        assert await workers(at, now - timedelta(1), beyond) == ["last", "new"]
