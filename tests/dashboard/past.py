"""A day that lies behind a store in a file: what two workers did in each minute, and their beats."""

import math
from pathlib import Path
from uuid import UUID

from holdfast._core.history import MinuteNote, TaskMinute
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import BeatNote, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.stores.sqlite.store import SqliteStore

WORKERS = ("elsewhere-7-0000", "elsewhere-8-0000")


class PastClock(SystemClock):
    """A clock that is behind, by a number of seconds that may be set."""

    behind = 0.0

    def wall(self) -> float:
        return super().wall() - self.behind


def store_of(folder: Path, clock: PastClock, process: ProcessIdentity) -> SqliteStore:
    return SqliteStore(folder / "jobs.db", clock=clock, chance=SystemRandomness(), process=process)


async def remember(folder: Path, process: ProcessIdentity, minutes: int = 60) -> None:
    """Write minutes of two workers, the last one of which has just ended, and a day of beats of the first one."""
    clock = PastClock()
    store = store_of(folder, clock, process)
    since_minute = clock.wall() % 60
    for ago in moments(minutes):
        clock.behind = ago * 60.0 + since_minute - 2.0
        await store.record_minutes([minute(worker, minutes - ago) for worker in WORKERS])
    await _beats(store, clock, process)
    await store.close()


def moments(minutes: int) -> list[int]:
    """Return how many minutes ago rows are written: each minute of the last hour, and the middle of each quarter of an hour before.

    So a test in which a minute passes finds them in the same steps.
    """
    return [ago for ago in range(minutes, -1, -1) if ago <= 60 or ago % 15 == 7]


def minute(worker: str, number: int) -> MinuteNote:
    """Return a minute in which waits rise for a while, some jobs fail, and a few are rescued."""
    hill = math.exp(-(((number - 42) / 4.0) ** 2))
    done, bad = 1200 + int(150 * math.sin(number / 6)), 130 if number > 45 else 12
    late = int(200 * hill)
    wait = (done - late, 0, 0, 0, 0, 0, 0, 0, late)
    imports = TaskMinute(
        "imports", "import_catalog", {"completed": 6, "snoozed": 2}, (0, 0, 8), (0,) * 8 + (6,), int(number in (12, 44, 52))
    )
    tasks = (
        TaskMinute("default", "sync_orders", {"completed": done, "failed": bad}, wait, (0, 0, done + bad), 0, bad - 4),
        imports,
    )
    return MinuteNote(
        id=SystemRandomness().uuid7(),
        worker=worker,
        seconds=60.0,
        slots=120,
        in_use=27 + 60 * hill,
        memory=400_000_000,
        tasks=tasks,
    )


async def _beats(store: SqliteStore, clock: PastClock, process: ProcessIdentity) -> None:
    lease = NewLease(UUID(int=77), WORKERS[0], process, LeaseTiming.of("1h"), slots=120)
    clock.behind = 86_000.0
    await store.open_lease(lease)
    for number in range(96):
        clock.behind = 86_000.0 - 900.0 * number
        lag = 0.4 if number == 60 else 0.003
        running = 30 + int(20 * math.sin(number / 9))
        note = BeatNote(
            lease=lease.id,
            kept=86_400.0,
            running=running,
            claimed=2,
            memory=380_000_000 + number * 300_000,
            loop_lag=lag,
            silence=0.1,
        )
        await store.beat([lease.id], notes=[note])
    await store.end_lease(lease.id, LeaseEnd(RescueReason.CLOSED, is_free=True))
