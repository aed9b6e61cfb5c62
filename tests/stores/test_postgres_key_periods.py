"""Unique keys held for a period or freed by the first claim, while other sessions are in the middle of their transactions."""

import asyncio
from typing import Any

import asyncpg
import psycopg
import pytest

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer, ReopenAnswer
from holdfast._core.job import State
from holdfast._core.outcome import Fail
from holdfast.testing.contracts.key_periods import LATEST, NIGHT, NIGHTLY, claimed, keyed
from holdfast.testing.contracts.scene import Scene, answered, done, play
from tests.stores.postgres_concurrent_sessions import Stage, rival, waits
from tests.stores.postgres_databases import Home
from tests.stores.test_postgres_enqueuing import within

PAUSE = """
CREATE FUNCTION holdfast.pause() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN PERFORM pg_advisory_xact_lock(15); RETURN NULL; END';
CREATE TRIGGER pause BEFORE DELETE ON holdfast.unique_keys FOR EACH STATEMENT EXECUTE FUNCTION holdfast.pause()
"""
GO_ON = "DROP TRIGGER pause ON holdfast.unique_keys; DROP FUNCTION holdfast.pause()"


def test_s11_a_job_that_is_reopened_while_a_call_takes_its_key_keeps_it(home: Home) -> None:
    """The call has found that the period is over, and is about to delete the key."""

    async def act(at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(answered(await claimed(at), Fail("no")))
        await at.store.reopen([first])
        await at.settle(done(await claimed(at)))
        at.advance(NIGHT + 1.0)
        second = keyed(at, NIGHTLY)
        home.sql(PAUSE)
        with psycopg.connect(home.dsn) as other:
            other.execute("SELECT pg_advisory_xact_lock(15)")
            asking = asyncio.ensure_future(at.send(second))
            assert await waits(home, asking)
            assert await at.another().reopen([first]) == ReopenAnswer({first: State.AVAILABLE})
            other.rollback()
        answer = await asking
        home.sql(GO_ON)
        assert answer == EnqueueAnswer({second.id: Duplicate(first, is_same=True)})
        assert home.sql("SELECT job FROM holdfast.unique_keys") == [(first,)]

    play(Stage(home), act)


@pytest.mark.parametrize("ending", ["done", "failed"])
def test_l11_a_job_whose_key_a_claim_has_freed_ends_while_a_callers_transaction_takes_the_key(home: Home, ending: str) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(keyed(at, LATEST))
        running = await claimed(at)
        second = keyed(at, LATEST)
        async with rival(home) as caller:
            assert await caller.enqueue(at.chance.uuid4(), [second]) == EnqueueAnswer()
            settling = asyncio.ensure_future(at.settle(done(running) if ending == "done" else answered(running, Fail("no"))))
            assert not await waits(home, settling)
            assert await settling == (Answer.APPLIED,)
        assert home.sql("SELECT job FROM holdfast.unique_keys") == [(second.id,)]

    play(Stage(home), act)


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_s11_a_call_whose_snapshot_hides_the_claim_that_freed_a_key_is_asked_to_run_again(home: Home, level: Any) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(keyed(at, LATEST))
        caller, again = await asyncpg.connect(home.dsn), keyed(at, LATEST)
        begun = caller.transaction(isolation=level)
        await begun.start()
        await caller.fetch("SELECT 1 FROM holdfast.versions")
        await claimed(at)
        with pytest.raises(asyncpg.SerializationError, match="took a unique key") as failure:
            await within(at, caller, keyed(at, LATEST))
        await begun.rollback()
        assert str(failure.value.hint).startswith("Run this transaction again")
        async with caller.transaction(isolation=level):
            assert await within(at, caller, again) == EnqueueAnswer()
        await caller.close()

    play(Stage(home), act)


@pytest.mark.parametrize("level", ["repeatable_read", "serializable"])
def test_s11_a_call_whose_snapshot_is_older_than_the_end_of_a_job_gets_its_key(home: Home, level: Any) -> None:
    """The job that had the key has not seen what the caller is about to commit."""

    async def act(at: Scene) -> None:
        await at.enqueue(at.new(key="k"))
        caller, second = await asyncpg.connect(home.dsn), at.new(key="k")
        running = await claimed(at)
        async with caller.transaction(isolation=level):
            await caller.fetch("SELECT 1 FROM holdfast.versions")
            await at.settle(done(running))
            assert await within(at, caller, second) == EnqueueAnswer()
        await caller.close()
        assert await at.state(second.id) is State.AVAILABLE

    play(Stage(home), act)
