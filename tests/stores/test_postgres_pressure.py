"""The PostgreSQL store under contention: locks, limits, conflicts, and a hundred claims for the same job."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from holdfast._core.answers import Answer
from holdfast._core.job import State
from holdfast._core.lifecycle import cancelled
from holdfast._core.requests import ProgressUpdate
from holdfast._engine.progress import report
from holdfast.databases.postgres import pool
from holdfast.errors import StoreUnavailable
from holdfast.testing.contracts.scene import Scene, done, insist, play, raised
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_faulty_databases import Site

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfast %' AND wait_event_type = 'Lock'"


@contextmanager
def locked(dsn: str) -> Iterator[psycopg.Connection]:
    """Lock the table of pending jobs in another session, and yield a connection for queries about locks."""
    with psycopg.connect(dsn, autocommit=True) as looking, psycopg.connect(dsn) as holding:
        holding.execute("LOCK TABLE holdfast.pending")
        yield looking


async def are_waiting(looking: psycopg.Connection, count: int) -> None:
    """Wait until that many of the store's connections wait for a lock."""
    await eventually(lambda: looking.execute(WAITING).fetchone() == (count,), within=STALL)


def test_a_beat_does_not_wait_behind_other_calls(database: str) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        with locked(database) as looking:
            enqueuing = [asyncio.ensure_future(at.enqueue(at.new())) for _ in range(10)]
            await are_waiting(looking, 3)
            async with asyncio.timeout(STALL / 2):
                assert (await at.store.beat([lease])).alive == {lease}
            assert not any(each.done() for each in enqueuing)
        await asyncio.gather(*enqueuing)
        assert await at.store.counts() == {("", State.AVAILABLE): 10}

    play(Site(database, connections=3), act)


def test_a_call_that_gets_no_connection_is_an_error(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TURN_LIMIT", 0.1)

    async def act(at: Scene) -> None:
        await at.store.counts()
        with locked(database) as looking:
            enqueuing = [asyncio.ensure_future(at.enqueue(at.new())) for _ in range(2)]
            await are_waiting(looking, 2)
            with pytest.raises(StoreUnavailable, match="busy"):
                await at.store.queues()
        await asyncio.gather(*enqueuing)

    play(Site(database, connections=2), act)


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout"])
def test_a_statement_that_takes_too_long_did_not_happen(database: str, limit: str) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        with locked(database):
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="timeout"):
                    await at.settle(raised(active))
        assert await at.state(active.id) is State.RUNNING
        assert await at.settle(raised(active)) == (Answer.APPLIED,)

    play(Site(database, server_settings={limit: "400ms"}), act)


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_verb_that_met_a_conflict_is_done_again(database: str, code: str) -> None:
    quarrel = f"""
        CREATE SEQUENCE quarrels;
        CREATE FUNCTION quarrel() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
            IF nextval('public.quarrels') % 9 < 4 THEN RAISE EXCEPTION 'in the way' USING ERRCODE = '{code}'; END IF;
            RETURN NULL;
        END$$;
    """
    tables = ("pending", "active", "finished", "leases", "receipts")

    async def act(at: Scene) -> None:
        with psycopg.connect(database) as other:
            other.execute(quarrel)
            for table in tables:
                other.execute(
                    f"CREATE TRIGGER quarrel AFTER INSERT OR UPDATE OR DELETE ON holdfast.{table} EXECUTE FUNCTION quarrel()"
                )
        good, bad = await at.running(), await at.running()
        assert (await at.store.beat([good.lease, bad.lease])).alive == {good.lease, bad.lease}
        assert await at.settle(done(good), raised(bad)) == (Answer.APPLIED, Answer.APPLIED)
        assert await at.store.reopen([good.id])
        assert await at.store.delete([good.id]) == {}
        with psycopg.connect(database) as other:
            (met,) = other.execute("SELECT last_value FROM quarrels").fetchone() or (0,)
        assert met > 20

    play(Site(database), act)


def test_of_a_hundred_concurrent_claims_one_gets_the_job(database: str) -> None:
    async def act(at: Scene) -> None:
        stores = [at.another() for _ in range(10)]
        leases = await asyncio.gather(*(at.lease(ttl=600.0) for _ in range(100)))
        numbers = set()
        for _ in range(5):
            (job,) = await at.enqueue(at.new())
            answers = await asyncio.gather(
                *(stores[index % 10].exchange([], at.request(lease, 5)) for index, lease in enumerate(leases))
            )
            (claim,) = [claim for answer in answers for claim in answer.claims]
            assert claim.job.id == job
            numbers.add(claim.job.token.number)
            assert await at.settle(done(claim.job)) == (Answer.APPLIED,)
        assert len(numbers) == 5

    play(Site(database, connections=3), act)


def test_settles_of_the_same_jobs_in_different_orders_do_not_deadlock(database: str) -> None:
    async def act(at: Scene) -> None:
        stores = [at.another() for _ in range(4)]
        for _ in range(5):
            await at.enqueue(*(at.new(key=str(index)) for index in range(60)))
            lease = await at.lease(ttl=600.0)
            active_jobs = [claim.job for claim in await at.claim(lease, 60)]
            orders = [
                active_jobs,
                active_jobs[::-1],
                active_jobs[30:] + active_jobs[:30],
                sorted(active_jobs, key=lambda each: each.id.int % 7),
            ]
            answers = await asyncio.gather(
                insist(stores[0], [done(active) for active in orders[0]]),
                insist(stores[1], [raised(active) for active in orders[1]], at.request(lease, 20)),
                insist(stores[2], [cancelled(active) for active in orders[2]]),
                report(stores[3], [ProgressUpdate(job=active.id, token=active.token, stage="last") for active in orders[3]]),
                at.store.beat([lease]),
            )
            landed = [
                active.id
                for order, answer in zip(orders[:3], answers[:3], strict=True)
                for active, each in zip(order, answer.answers, strict=True)
                if each is Answer.APPLIED
            ]
            assert sorted(landed) == sorted(active.id for active in active_jobs)
            await at.settle(*(done(claim.job) for claim in answers[1].claims))
            await at.store.purge("default", 100)
        with psycopg.connect(database) as other:
            deadlocks = other.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
        assert deadlocks == (0,)

    play(Site(database), act)
