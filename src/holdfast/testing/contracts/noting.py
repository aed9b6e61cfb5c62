"""The history of workers: a beat adds notes in its own write, and they are kept for as long as they ask for."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import BeatView, Pruned
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Snooze
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.requests import BeatNote
from holdfast._engine import store_defaults
from holdfast._ports.store import WorkerHistory
from holdfast.errors import Unsupported
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, needs, story

DAY = 86_400.0
CRASH = LeaseEnd(RescueReason.CRASHED, signal="SIGKILL")


async def refused(at: Scene) -> None:
    """Check that a store without a history is known as such, and that its beats work."""
    assert not store_defaults.has_history(at.store)
    assert len((await at.store.beat([await at.lease()])).alive) == 1
    try:
        await history(at)
    except Unsupported:
        return
    raise AssertionError("a store without a history of workers offers one")


async def history(at: Scene, worker: str = "worker", limit: int = 100) -> tuple[BeatView, ...]:
    """Return the last notes on a worker."""
    return await store_defaults.worker_history(at.store, worker, limit)


async def noted(at: Scene, lease: UUID, *running: int, kept: float = DAY) -> None:
    """Beat once a minute, each time with a note on how many jobs run."""
    for number in running:
        assert (await at.store.beat([lease], notes=[BeatNote(lease=lease, kept=kept, running=number)])).alive == {lease}
        at.advance(60.0)


def numbers(found: Sequence[BeatView]) -> list[int | None]:
    """Return how many jobs ran, by the notes."""
    return [beat.running for beat in found]


class NoteContract(Part):
    """What is promised about notes on workers."""

    @story
    @needs(WorkerHistory, refused)
    async def test_a_note_is_kept_as_it_was_given_with_the_name_the_slots_and_the_time(self, at: Scene) -> None:
        lease = structs.replace(at.new_lease(worker="web-1-42-5f2c"), slots=7)
        assert await at.store.open_lease(lease)
        note = BeatNote(lease=lease.id, kept=DAY, running=3, claimed=2, memory=5 * 2**40, loop_lag=0.25, silence=1.5)
        for _ in range(2):
            at.advance(60.0)
            assert (await at.store.beat([lease.id], notes=[note])).alive == {lease.id}
        newer, older = await history(at, lease.worker)
        for beat in (newer, older):
            assert (beat.worker, beat.slots) == (lease.worker, 7)
            assert (beat.running, beat.claimed, beat.memory, beat.loop_lag) == (3, 2, 5 * 2**40, 0.25)
            assert beat.answered_at is not None
            assert abs((beat.at - beat.answered_at).total_seconds() - 1.5) < EARLY
        assert abs((newer.at - older.at).total_seconds() - 60.0) < EARLY
        (view,) = await at.store.workers()
        assert view.overdue < 0

    @story
    @needs(WorkerHistory, refused)
    async def test_what_is_not_known_of_a_worker_stays_unknown(self, at: Scene) -> None:
        lease = await at.lease()
        await at.store.beat([lease], notes=[BeatNote(lease=lease, kept=DAY)])
        (beat,) = await history(at)
        assert (beat.running, beat.claimed, beat.memory, beat.loop_lag, beat.answered_at) == (None,) * 5
        assert beat.slots == 0

    @story
    @needs(WorkerHistory, refused)
    async def test_a_beat_with_notes_does_to_leases_what_one_without_does(self, at: Scene) -> None:
        job, other, ended = await at.running(), await at.lease(worker="other"), (await at.running()).lease
        await at.store.request_cancel([job.id])
        await at.store.end_lease(ended, CRASH)
        await at.store.beat([job.lease, other])
        before = {view.id: view for view in (*await at.store.workers(), *await at.store.expired(10))}
        at.advance(6.0)
        notes = [BeatNote(lease=lease, kept=DAY) for lease in (job.lease, ended)]
        answer = await at.store.beat([job.lease, ended], draining=True, notes=notes)
        assert answer.alive == {job.lease}
        assert answer.gone == {ended}
        assert answer.cancelled == {job.lease: (job.id,)}
        assert answer.elapsed is None or abs(answer.elapsed - 6.0) < EARLY
        after = {view.id: view for view in (*await at.store.workers(), *await at.store.expired(10))}
        assert [after[lease].is_draining for lease in (job.lease, other, ended)] == [True, False, False]
        assert after[job.lease].seen != before[job.lease].seen
        assert [after[lease].seen for lease in (other, ended)] == [before[lease].seen for lease in (other, ended)]

    @story
    @needs(WorkerHistory, refused)
    async def test_only_a_note_on_a_lease_that_the_beat_renews_is_kept(self, at: Scene) -> None:
        leases = {worker: await at.lease(worker=worker) for worker in ("alive", "ended", "unnoted", "unasked")}
        leases["unborn"] = at.chance.uuid4()
        await at.store.end_lease(leases["ended"], CRASH)
        notes = [BeatNote(lease=lease, kept=DAY) for worker, lease in leases.items() if worker != "unnoted"]
        await at.store.beat([lease for worker, lease in leases.items() if worker != "unasked"], notes=notes)
        await at.store.beat(list(leases.values()))
        assert [len(await history(at, worker)) for worker in leases] == [1, 0, 0, 0, 0]
        assert await history(at, "") == ()

    @story
    @needs(WorkerHistory, refused)
    async def test_the_history_of_one_worker_is_read_newest_first_and_bounded(self, at: Scene) -> None:
        lease, other = await at.lease(), await at.lease(worker="work")
        await noted(at, lease, 1, 2, 3)
        await noted(at, other, 9)
        assert numbers(await history(at)) == [3, 2, 1]
        assert numbers(await history(at, limit=2)) == [3, 2]
        assert numbers(await history(at, "work")) == [9]

    @story
    @needs(WorkerHistory, refused)
    async def test_the_history_outlives_the_lease(self, at: Scene) -> None:
        lease = await at.lease()
        await noted(at, lease, 1)
        await at.store.end_lease(lease, CRASH)
        at.advance(RETENTION_FLOOR)
        assert (await at.store.prune(10)).leases == 1
        assert numbers(await history(at)) == [1]

    @story
    @needs(WorkerHistory, refused)
    async def test_a_note_is_pruned_once_its_time_is_over_and_not_before(self, at: Scene) -> None:
        lease = await at.lease()
        await at.store.beat([lease], notes=[BeatNote(lease=lease, kept=100.0, running=1)])
        at.advance(100.0 - EARLY)
        assert (await at.store.prune(10)).beats == 0
        at.advance(EARLY)
        await at.store.beat([lease], notes=[BeatNote(lease=lease, kept=100.0, running=2)])
        assert await at.store.prune(10) == Pruned(beats=1)
        assert numbers(await history(at)) == [2]

    @story
    @needs(WorkerHistory, refused)
    async def test_notes_stay_when_other_records_are_pruned(self, at: Scene) -> None:
        job = await at.running()
        await noted(at, job.lease, 1)
        await at.settle(answered(job, Snooze(for_="1s")))
        at.advance(RETENTION_FLOOR)
        found = await at.store.prune(10)
        assert (found.attempts, found.beats) == (1, 0)
        assert numbers(await history(at)) == [1]

    @story
    @needs(WorkerHistory, refused)
    async def test_no_more_notes_are_pruned_than_asked_and_first_those_that_are_over_for_longest(self, at: Scene) -> None:
        lease = await at.lease()
        await noted(at, lease, 1, kept=1000.0)
        await noted(at, lease, 2, 3, 4, kept=0.0)
        at.advance(1000.0)
        assert [(await at.store.prune(2)).beats for _ in range(2)] == [2, 2]
        assert await history(at) == ()
        await noted(at, lease, 1, kept=1000.0)
        await noted(at, lease, 2, 3, kept=0.0)
        at.advance(1000.0)
        assert (await at.store.prune(2)).beats == 2
        assert numbers(await history(at)) == [1]
