"""The history of workers: which beats carry notes on them, and what a note has."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from msgspec import structs

from holdfast import BeatView
from holdfast._core.requests import BeatNote
from holdfast._engine import messages
from holdfast._engine.supervisor.beat_history import INTERVAL, BeatHistory
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.host import Exit
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from tests.contract.test_required_verbs import RequiredVerbs
from tests.engine.machines import MemoryChild, MemoryHost
from tests.engine.supervisor.test_supervisor import HELLO, Fleet, obey, passing
from tests.engine.support import LEASE, SETTINGS, TIMING, Log
from tests.event_loops import beside

DAY = 86_400.0


def watched(clock: FakeClock, *, is_ready: bool = True) -> WorkerHandle:
    """Make the handle of a worker with a lease, which is asked at once when it is watched."""
    handle = WorkerHandle(MemoryChild(7), now=clock.monotonic, events=Log().events)
    handle.handle(messages.WorkerHello(SETTINGS, ("t",), ()))
    handle.lease_granted(LEASE, clock.monotonic())
    if is_ready:
        handle.handle(messages.Ready())
    return handle


def pong(clock: FakeClock, running: int = 0, claimed: int = 0) -> messages.Pong:
    return messages.Pong(clock.monotonic(), False, running, claimed)


async def histories(fleet: Fleet) -> dict[int, list[BeatView]]:
    """Return the history of each worker by its pid, oldest first."""
    return {
        view.process.pid: [*reversed(await fleet.memory.worker_history(view.worker, 1000))]
        for view in await fleet.memory.workers()
    }


@pytest.mark.virtual_time
async def test_once_a_minute_a_beat_notes_every_worker() -> None:
    fleet = Fleet(processes=2)
    for child in [(await fleet.ready())[0] for _ in range(2)]:
        beside(obey(child))
    await passing(10 * INTERVAL)
    found = await histories(fleet)
    assert found.keys() == {100, 101}
    for pid, beats in found.items():
        assert 9 <= len(beats) <= 11
        pauses = [(later.at - earlier.at).total_seconds() for earlier, later in pairwise(beats)]
        assert all(INTERVAL <= pause <= INTERVAL + TIMING.beat for pause in pauses)
        assert {beat.memory for beat in beats} == {pid * 2**20}
        assert {(beat.running, beat.claimed) for beat in beats[1:]} == {(0, 0)}
        assert all(
            beat.answered_at is not None and beat.at - beat.answered_at < timedelta(seconds=TIMING.beat + 2) for beat in beats[1:]
        )
    assert fleet.store.calls.count("beat") >= 99, "a note is no write of its own"
    assert "worker_history" not in fleet.store.calls


@pytest.mark.virtual_time
async def test_a_beat_that_fails_is_sent_again_without_its_notes() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    beside(obey(child))
    await passing(TIMING.beat * 2)
    (worker,) = await fleet.memory.workers()
    before = len(await fleet.memory.worker_history(worker.worker, 100))
    sent = await notes_of_beats(fleet, INTERVAL + TIMING.beat * 2)
    assert [len(notes) for notes in sent if notes] == [1]
    place = next(n for n, notes in enumerate(sent) if notes)
    assert sent[place + 1] == ()
    assert len(await fleet.memory.worker_history(worker.worker, 100)) == before
    assert (await fleet.memory.workers())[0].id == leased.lease


async def notes_of_beats(fleet: Fleet, seconds: float) -> list[tuple[BeatNote, ...]]:
    """Let time pass while all beats with notes fail; return the notes of every beat that was sent."""
    sent: list[tuple[BeatNote, ...]] = []
    beat = fleet.memory.beat

    async def failing(leases: object, *, draining: bool = False, notes: tuple[BeatNote, ...] = ()) -> object:
        sent.append(notes)
        if notes:
            raise ConnectionError("the history is locked")
        return await beat(leases, draining=draining)  # type: ignore[arg-type]

    fleet.memory.beat = failing  # type: ignore[method-assign, assignment]
    await passing(seconds)
    fleet.memory.beat = beat  # type: ignore[method-assign]
    return sent


@pytest.mark.virtual_time
async def test_a_history_of_0_seconds_is_switched_off() -> None:
    fleet = Fleet()
    child = await fleet.spawned()
    child.far.say(structs.replace(HELLO, settings=structs.replace(SETTINGS, beat_history=0.0)))
    await child.far.hear(messages.LeaseGranted)
    child.far.say(messages.Ready())
    beside(obey(child))
    await passing(3 * INTERVAL)
    assert await histories(fleet) == {100: []}
    child.end(Exit(code=0))


def test_a_store_without_a_history_gets_no_notes() -> None:
    async def run() -> None:
        clock = FakeClock()
        memory = MemoryStore(clock)
        workers = [watched(clock)]
        for store, number in ((memory, 1), (RequiredVerbs(memory), 0)):
            history = BeatHistory(store, MemoryHost(), kept=DAY)  # type: ignore[arg-type]
            assert len(history.notes(workers, clock.monotonic())) == number

    asyncio.run(run())


def test_a_worker_that_has_not_answered_yet_is_noted_with_what_is_known() -> None:
    async def run() -> None:
        clock = FakeClock()
        handle = watched(clock, is_ready=False)
        assert handle.note(DAY, 5) == BeatNote(lease=LEASE.id, kept=DAY, memory=5)
        handle.ping()
        clock.advance(2.0)
        assert handle.note(DAY, None) == BeatNote(lease=LEASE.id, kept=DAY, loop_lag=2.0)

    asyncio.run(run())


def test_a_note_has_the_longest_wait_for_an_answer_since_the_note_before() -> None:
    async def run() -> None:
        clock = FakeClock()
        handle = watched(clock)
        for wait in (0.1, 0.5, 0.2):
            handle.ping()
            clock.advance(wait)
            handle.handle(pong(clock, running=3, claimed=2))
        clock.advance(4.0)
        note = handle.note(DAY, 5)
        assert (note.running, note.claimed, note.memory, note.kept) == (3, 2, 5, DAY)
        assert note.loop_lag == pytest.approx(0.5)
        assert note.silence == pytest.approx(4.0)
        assert handle.note(DAY, 5).loop_lag == 0.0
        handle.ping()
        clock.advance(30.0)
        assert handle.note(DAY, 5).loop_lag == pytest.approx(30.0)
        assert handle.note(DAY, 5).silence == pytest.approx(34.0)

    asyncio.run(run())
