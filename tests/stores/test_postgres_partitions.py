"""Days of finished jobs are partitions; verbs do not wait while partitions are made and dropped."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast._core.answers import Pruned
from holdfast._core.job import ActiveJob, State
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._ports.store import Store
from holdfast.stores.postgres.partitions import AHEAD
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Part, Scene, done, play, raised, released
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_databases import KINDS, Home, Homes

DAY = 86400.0
WEEK = Policy(retention=7 * DAY)
ALL = 1000


class In(Part):
    """Scenes in a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def make_store(self, clock: FakeClock) -> Store:
        return self._home.store(clock)


def today(at: Scene) -> date:
    return at.now.date()


def partitions(home: Home, parent: str = "finished") -> list[str]:
    """Return the days that have a partition, by the names of their tables."""
    found = home.sql("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ %s ORDER BY 1", f"^{parent}_[0-9]")
    return [name.removeprefix(f"{parent}_") for (name,) in found]


def names(first: date, count: int) -> list[str]:
    return [f"{first + timedelta(days=number):%Y%m%d}" for number in range(count)]


def partitions_of_rows(home: Home, table: str = "finished") -> list[str]:
    """Return the names of the partitions that contain rows."""
    return [name.rpartition(".")[2] for (name,) in home.sql(f"SELECT tableoid::regclass::text FROM holdfast.{table}")]


async def finished(at: Scene, policy: Policy = WEEK, payload: bytes = b"{}") -> ActiveJob:
    """Return a job that failed once and then completed, so that it has a recorded attempt, too."""
    job = at.new(queue=str(at.chance.uuid4()), payload=payload)
    await at.enqueue(job)
    (claim,) = await at.claim(await at.lease(), queues=(job.queue,), policy=policy)
    await at.settle(raised(claim.job))
    at.advance(10.0)
    (claim,) = await at.claim(await at.lease(), queues=(job.queue,), policy=policy)
    await at.settle(done(claim.job))
    return claim.job


def test_partitions_are_made_ahead_by_migrate_and_by_prune(home: Home) -> None:
    async def act(at: Scene) -> None:
        assert partitions(home) == partitions(home, "attempts") == names(today(at) + timedelta(days=1), AHEAD)
        at.advance(2 * DAY)
        await at.store.prune(0)
        assert partitions(home) == partitions(home, "attempts") == names(today(at) - timedelta(days=1), AHEAD + 2)
        await at.store.prune(ALL)
        assert partitions(home)[-1] == f"{today(at) + timedelta(days=AHEAD):%Y%m%d}"

    play(In(home), act)


@pytest.mark.parametrize("kind", [kind for kind, is_there in KINDS.items() if is_there and kind != "roles"])
def test_a_finished_job_and_all_its_records_are_deleted_with_their_partition(homes: Homes, kind: str) -> None:
    home = homes.empty(kind)

    async def act(at: Scene) -> None:
        active, long = await finished(at), await finished(at, payload=b"x" * 5000)
        day = f"{at.now + timedelta(days=7):%Y%m%d}"
        assert partitions_of_rows(home) == [f"finished_{day}"] * 2
        assert set(partitions_of_rows(home, "attempts")) == {f"attempts_{day}"}
        before = [await at.row(each.id) for each in (active, long)]
        left = (datetime.combine(today(at), datetime.min.time(), UTC) + timedelta(days=8) - at.now).total_seconds()
        at.advance(left)
        await at.store.prune(ALL)
        assert [await at.row(each.id) for each in (active, long)] == before
        at.advance(RETENTION_FLOOR + 3600.0)
        assert day in partitions(home)
        assert (await at.store.prune(1)).jobs == 1  # the payload in its separate table is deleted later
        assert day in partitions(home)
        assert (await at.store.prune(ALL)).jobs == 1
        assert day not in partitions(home) + partitions(home, "attempts")
        assert await at.store.get(active.id) is None
        assert [home.sql(f"SELECT count(*) FROM holdfast.{each}") for each in ("finished", "attempts", "payloads")] == [
            [(0,)]
        ] * 3
        assert await at.store.prune(ALL) == Pruned()

    play(In(home), act)


@pytest.mark.parametrize("retention", [0.0, DAY - 1.0, 30 * DAY])
def test_a_job_whose_retention_fits_no_partition_is_deleted_by_its_row(home: Home, retention: float) -> None:
    async def act(at: Scene) -> None:
        await finished(at, Policy(retention=retention))
        assert partitions_of_rows(home) == ["finished_other"]
        assert set(partitions_of_rows(home, "attempts")) == {"attempts_other"}
        at.advance(max(retention, RETENTION_FLOOR) - 1.0)
        assert (await at.store.prune(ALL)).jobs == 0
        at.advance(1.0)
        assert (await at.store.prune(ALL)).jobs == 1
        assert partitions_of_rows(home) == partitions_of_rows(home, "attempts") == []

    play(In(home), act)


def test_settles_succeed_and_jobs_are_pruned_in_time_when_pruning_had_stopped(home: Home) -> None:
    async def act(at: Scene) -> None:
        first = await finished(at)
        at.advance(20 * DAY)  # every partition has passed
        late = await finished(at)
        assert "finished_other" in partitions_of_rows(home)
        assert (await at.store.prune(ALL)).jobs == 1
        assert await at.store.get(first.id) is None
        assert partitions(home) == names(today(at) + timedelta(days=1), AHEAD)
        timely = await finished(at)
        assert sorted(partitions_of_rows(home)) == [f"finished_{at.now + timedelta(days=7):%Y%m%d}", "finished_other"]
        at.advance(7 * DAY)
        await at.store.prune(ALL)
        assert [await at.store.get(active.id) for active in (late, timely)] == [None, await at.row(timely.id)]
        at.advance(2 * DAY)
        await at.store.prune(ALL)
        assert await at.store.get(timely.id) is None

    play(In(home), act)


def test_a_reopened_job_is_not_deleted_with_its_former_partition(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await finished(at)
        at.advance(6 * DAY)
        await at.store.reopen([active.id])
        assert set(partitions_of_rows(home, "attempts")) == {"attempts_other"}
        at.advance(3 * DAY)
        assert (await at.store.prune(ALL)).jobs == 0
        row = await at.row(active.id)
        assert (row.state, len(row.attempts)) == (State.AVAILABLE, 2)

    play(In(home), act)


def test_records_of_a_job_that_ends_before_its_code_starts_again_are_deleted_with_it(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        (claim,) = await at.claim(await at.lease(), policy=WEEK)
        await at.settle(done(claim.job))
        await at.store.reopen([job])
        (claim,) = await at.claim(await at.lease(), 0, prefetch=1, policy=WEEK)
        await at.store.request_cancel([job])
        await at.settle(released(claim.job))
        assert (await at.row(job)).state is State.CANCELLED
        assert set(partitions_of_rows(home, "attempts")) == {f"attempts_{at.now + timedelta(days=7):%Y%m%d}"}

    play(In(home), act)


def test_a_clock_that_is_set_back_for_days_fails_no_settle(home: Home) -> None:
    async def act(at: Scene) -> None:
        await finished(at)
        at.advance(20 * DAY)
        await at.store.prune(ALL)
        home.clock.advance(-15 * DAY)
        active = await finished(at, Policy(retention=DAY))
        assert (await at.row(active.id)).state is State.COMPLETED

    play(In(home), act)


@pytest.mark.timeout(120)
def test_partitions_are_made_and_dropped_beside_work_and_readers(home: Home) -> None:
    async def act(at: Scene) -> None:
        await finished(at)
        at.advance(9 * DAY)
        with psycopg.connect(home.dsn) as reader:  # for hours
            reader.execute("SELECT count(*) FROM holdfast.jobs")
            pruning = asyncio.ensure_future(at.another().prune(ALL))
            await eventually(lambda: waits_for(home, reader), within=STALL)
            async with asyncio.timeout(STALL):
                active = await finished(at)
            assert (await at.row(active.id)).state is State.COMPLETED
            assert not pruning.done()
        async with asyncio.timeout(STALL):
            assert (await pruning).jobs == 1

    play(In(home), act)


def waits_for(home: Home, reader: psycopg.Connection[Any]) -> bool:
    """Return whether another session waits for the end of that transaction."""
    ((count,),) = home.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", reader.info.backend_pid
    )
    return bool(count)


@pytest.mark.timeout(120)
def test_a_detach_that_was_cut_off_is_finished_by_the_next_prune(home: Home) -> None:
    async def act(at: Scene) -> None:
        await finished(at)
        at.advance(9 * DAY)
        with psycopg.connect(home.dsn) as reader:
            reader.execute("SELECT count(*) FROM holdfast.jobs")
            pruning = asyncio.ensure_future(at.another().prune(ALL))
            await eventually(lambda: waits_for(home, reader), within=STALL)
            home.sql(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))",
                reader.info.backend_pid,
            )
            assert (await pruning).jobs == 0
            assert home.sql("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == [(1,)]
            assert (await finished(at)) is not None
        assert (await at.store.prune(ALL)).jobs == 1
        assert partitions(home) == partitions(home, "attempts") == names(today(at), AHEAD + 1)

    play(In(home), act)


def test_concurrent_prunes_drop_a_partition_once(home: Home) -> None:
    async def act(at: Scene) -> None:
        await finished(at)
        at.advance(20 * DAY)
        answers = await asyncio.gather(*(at.another().prune(ALL) for _ in range(5)))
        assert sum(answer.jobs for answer in answers) >= 1
        await at.store.prune(ALL)
        assert partitions(home) == partitions(home, "attempts") == names(today(at) + timedelta(days=1), AHEAD)
        assert home.sql("SELECT count(*) FROM holdfast.finished") == [(0,)]

    play(In(home), act)


def test_a_locked_row_with_a_long_payload_is_deleted_with_its_partition(home: Home) -> None:
    async def act(at: Scene) -> None:
        active = await finished(at, Policy(retention=2 * DAY), payload=b"x" * 5000)
        assert home.sql("SELECT job FROM holdfast.payloads") == [(active.id,)]
        at.advance(4 * DAY)
        with psycopg.connect(home.dsn) as reader:
            reader.execute("SELECT id FROM holdfast.finished FOR UPDATE")
            pruning = asyncio.ensure_future(at.store.prune(ALL))
            detaching = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%DETACH%%' AND wait_event_type = 'Lock'"
            await eventually(lambda: home.sql(detaching), within=STALL)
            assert home.sql("SELECT count(*) FROM holdfast.payloads") == [(1,)]
            reader.rollback()
            assert (await pruning).jobs == 1
        assert home.sql("SELECT count(*) FROM holdfast.payloads") == [(0,)]

    play(In(home), act)


@pytest.mark.parametrize("asked", ["'9999-01-01'", "'0001-01-01'", "'infinity'", "'-infinity'", "NULL"])
def test_a_call_for_a_far_day_makes_no_far_partitions(home: Home, asked: str) -> None:
    async def act(at: Scene) -> None:
        home.sql(f"SELECT holdfast.make_partitions({asked})")
        assert all(f"{today(at):%Y%m%d}" < name <= f"{today(at) + timedelta(days=AHEAD + 1):%Y%m%d}" for name in partitions(home))
        at.advance(3 * DAY)
        await at.store.prune(ALL)
        await finished(at)
        assert partitions_of_rows(home) == [f"finished_{today(at) + timedelta(days=7):%Y%m%d}"]

    play(In(home), act)


def test_partitions_are_made_as_before_after_a_clock_was_years_ahead(home: Home) -> None:
    async def act(at: Scene) -> None:
        home.clock.advance(3650 * DAY)
        await at.store.prune(ALL)
        home.clock.advance(-3650 * DAY)
        for _ in range(2):
            await at.store.prune(ALL)
            await finished(at)
            assert set(partitions_of_rows(home)) == {f"finished_{today(at) + timedelta(days=7):%Y%m%d}"}
        assert set(names(today(at) + timedelta(days=1), AHEAD)) <= set(partitions(home))

    play(In(home), act)
