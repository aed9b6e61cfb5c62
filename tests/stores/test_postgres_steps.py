"""Steps and signals on PostgreSQL: which sessions wait for each other, and what a lock of another session delays."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Suspend
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.steps import FOREVER, Signal, SignalAnswer, SignalTaken
from holdfast.testing.contracts.scene import Scene, answered, done, play, raised, rescued
from holdfast.testing.contracts.signalling import send, take, wait
from holdfast.testing.contracts.stepping import FIRST, again, kept, recorded, verbs
from tests.stores.postgres_concurrent_sessions import Stage, locked, rival, waits
from tests.stores.postgres_databases import Home

CRASH = LeaseEnd(RescueReason.CRASHED)
DAY = 86_400.0


@contextmanager
def paused_before_its_locks(home: Home, store: Any) -> Iterator[None]:
    """Stop a settle when it has its snapshot, and no lock."""
    text, begins = store._sql("settle"), "judged AS MATERIALIZED (\n    SELECT\n"
    assert text.count(begins) == 1
    store._texts["settle"] = text.replace(begins, f"{begins} (SELECT true FROM pg_advisory_xact_lock(15)) AS is_paused,\n")
    with psycopg.connect(home.dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(15)")
        yield
        other.rollback()
    store._texts["settle"] = text


def test_s23_a_suspension_sees_a_signal_that_was_committed_after_it_began(home: Home) -> None:
    async def act(at: Scene) -> None:
        job, other = await at.running(), at.another()
        with paused_before_its_locks(home, other):
            moving = asyncio.ensure_future(other.exchange([answered(job, Suspend(FOREVER, "go"))]))
            assert await waits(home, moving)
            assert await send(at, job.id) is SignalAnswer.ACCEPTED
        assert (await moving).answers == (Answer.APPLIED,)
        row = await at.row(job.id)
        assert (row.state, row.awaits) == (State.AVAILABLE, None)
        assert await take(at, await again(at, job), wait()) == SignalTaken(b"1")

    play(Stage(home), act)


def test_s23_a_signal_waits_for_a_suspension_and_wakes_the_job(home: Home) -> None:
    async def act(at: Scene) -> None:
        job = await at.running()
        async with rival(home) as other:
            await other.exchange([answered(job, Suspend(FOREVER, "go"))])
            sending = asyncio.ensure_future(send(at, job.id))
            assert await waits(home, sending)
        assert await sending is SignalAnswer.ACCEPTED
        assert await at.state(job.id) is State.AVAILABLE

    play(Stage(home), act)


def test_s23_a_suspension_beside_a_signal_under_way_is_sent_again(home: Home) -> None:
    async def act(at: Scene) -> None:
        job = await at.running()
        async with rival(home) as other:
            await other.signal(job.id, Signal(at.chance.uuid4(), "go", b"1"))
            assert await at.settle(answered(job, Suspend(FOREVER, "go"))) == (Answer.BUSY,)
        assert await at.settle(answered(job, Suspend(FOREVER, "go"))) == (Answer.APPLIED,)
        assert await at.state(job.id) is State.AVAILABLE

    play(Stage(home), act)


def test_s23_a_signal_that_waits_for_the_end_of_its_job_is_refused(home: Home) -> None:
    async def act(at: Scene) -> None:
        job = await at.running()
        async with rival(home) as other:
            await other.exchange([done(job)])
            sending = asyncio.ensure_future(send(at, job.id))
            assert await waits(home, sending)
        assert await sending is SignalAnswer.REFUSED

    play(Stage(home), act)


def test_s23_a_signal_waits_for_the_deletion_of_its_job_and_leaves_nothing(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        async with rival(home) as other:
            await other.delete([job])
            sending = asyncio.ensure_future(send(at, job))
            assert await waits(home, sending)
        assert await sending is SignalAnswer.MISSING
        assert left(home) == (0, 0)

    play(Stage(home), act)


def test_a_copy_of_a_call_under_way_is_accepted_and_keeps_one_signal(home: Home) -> None:
    async def act(at: Scene) -> None:
        job, call = await at.running(), at.chance.uuid4()
        async with rival(home) as other:
            await other.signal(job.id, Signal(call, "go", b"1"))
            sending = asyncio.ensure_future(send(at, job.id, call=call))
            assert await waits(home, sending)
        assert await sending is SignalAnswer.ACCEPTED
        assert await take(at, job, wait(1)) == SignalTaken(b"1")
        assert await take(at, job, wait(2)) == SignalTaken()

    play(Stage(home), act)


def test_s22_a_record_and_a_rescue_wait_for_each_other(home: Home) -> None:
    async def act(at: Scene) -> None:
        first, second = await at.running(), await at.running()
        for job in (first, second):
            await at.store.end_lease(job.lease, CRASH)
        async with rival(home) as other:
            assert await other.record_step(first.id, first.token, FIRST)
            assert await at.settle(rescued(first, CRASH)) == (Answer.BUSY,)
        assert await at.settle(rescued(first, CRASH)) == (Answer.APPLIED,)
        assert await kept(at, first.id) == (FIRST,)
        async with rival(home) as other:
            await other.exchange([rescued(second, CRASH)])
            recording = asyncio.ensure_future(verbs(at.store).record_step(second.id, second.token, FIRST))
            assert await waits(home, recording)
        assert not await recording
        assert await kept(at, second.id) == ()

    play(Stage(home), act)


def test_s23_consuming_waits_for_a_rescue_and_then_consumes_nothing(home: Home) -> None:
    async def act(at: Scene) -> None:
        job = await at.running()
        await send(at, job.id)
        await at.store.end_lease(job.lease, CRASH)
        async with rival(home) as other:
            await other.exchange([rescued(job, CRASH)])
            taking = asyncio.ensure_future(take(at, job, wait()))
            assert await waits(home, taking)
        assert await taking == SignalTaken(is_lost=True)
        assert await take(at, await again(at, job), wait()) == SignalTaken(b"1")

    play(Stage(home), act)


def test_l11_locked_steps_and_signals_delay_no_settle(home: Home) -> None:
    async def act(at: Scene) -> None:
        job = await at.running()
        await recorded(at, job, FIRST)
        await send(at, job.id)
        with locked(home, "steps"), locked(home, "signals"):
            assert await at.settle(structs.replace(done(job), forgets_steps=True)) == (Answer.APPLIED,)
            assert await kept(at, job.id) == (FIRST,)
        at.advance(8 * DAY)
        await at.store.prune(100)
        assert await kept(at, job.id) == ()

    play(Stage(home), act)


async def finished(at: Scene, policy: Policy) -> ActiveJob:
    """Return a job that has failed, with a step and a signal."""
    job = await at.running(policy=policy)
    await recorded(at, job, FIRST)
    await send(at, job.id)
    await at.settle(raised(job))
    return job


def left(home: Home) -> tuple[int, int]:
    """Return how many steps and signals there are."""
    with psycopg.connect(home.dsn) as link:
        found = [link.execute(f"SELECT count(*) FROM holdfast.{table}").fetchone() for table in ("steps", "signals")]  # type: ignore[arg-type]
    return found[0][0], found[1][0]  # type: ignore[index]


def test_l11_a_job_whose_steps_or_signals_are_locked_is_pruned_and_purged_later(home: Home) -> None:
    async def act(at: Scene) -> None:
        for table in ("steps", "signals"):
            over = await finished(at, Policy(max_attempts=1, retention=0.0))
            waiting = await at.running()
            await recorded(at, waiting, FIRST)
            await send(at, waiting.id)
            await at.settle(answered(waiting, Suspend(FOREVER)))
            queue = (await at.row(waiting.id)).queue
            at.advance(RETENTION_FLOOR + 1.0)
            with locked(home, table):
                assert (await at.store.prune(100)).jobs == 0
                assert (await at.store.purge(queue, 100)).jobs == 0  # type: ignore[attr-defined]
            assert (await at.store.prune(100)).jobs == 1
            assert (await at.store.purge(queue, 100)).jobs == 1  # type: ignore[attr-defined]
            assert await at.store.get(over.id) is None
            assert left(home) == (0, 0)

    play(Stage(home), act)


def test_a_dropped_partition_takes_steps_and_signals_along(home: Home) -> None:
    async def act(at: Scene) -> None:
        over = await finished(at, Policy(max_attempts=1, retention=2 * DAY))
        later = await finished(at, Policy(max_attempts=1, retention=6 * DAY))
        assert left(home) == (2, 2)
        home.clock.advance(timedelta(days=4).total_seconds())
        assert (await at.store.prune(100)).jobs == 1
        assert await at.store.get(over.id) is None
        assert left(home) == (1, 1)
        assert await kept(at, later.id) == (FIRST,)

    play(Stage(home), act)
