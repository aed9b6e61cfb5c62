"""Jobs claimed ahead on PostgreSQL: which sessions wait for the start of such jobs, and which do not."""

import asyncio

from holdfast._core.answers import Answer
from holdfast._core.job import State
from holdfast._core.lifecycle import voided
from holdfast._core.policy import RETENTION_FLOOR
from holdfast.testing.contracts.prefetching import CRASH, ahead, begin, states, verbs
from holdfast.testing.contracts.scene import Scene, done, play
from tests.stores.postgres_concurrent_sessions import Stage, locked, rival, waits
from tests.stores.postgres_databases import Home


def test_s1_the_return_of_a_voided_job_waits_for_a_void_under_way(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await ahead(at, 1)
        await verbs(at.store).void(job.lease, 1)
        async with rival(home) as other:
            await other.void(job.lease, 2)
            moving = asyncio.ensure_future(at.settle(voided(job, 1)))
            assert await waits(home, moving)
        assert await moving == (Answer.LOST,)
        assert await at.state(job.id) is State.CLAIMED

    play(Stage(home), act)


def test_s1_the_return_of_a_voided_job_waits_for_a_start_under_way(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = await ahead(at, 2)
        await verbs(at.store).void(jobs[0].lease, 1)
        async with rival(home) as other:
            assert await other.start_through(jobs[0].lease, jobs[0].token.number, 1)
            moving = asyncio.ensure_future(at.settle(*(voided(job, 1) for job in jobs)))
            assert await waits(home, moving)
        assert await moving == (Answer.LOST, Answer.APPLIED)

    play(Stage(home), act)


def test_s1_a_start_that_waits_for_a_void_is_refused(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = await ahead(at, 2)
        assert await begin(at, jobs[0])
        async with rival(home) as other:
            assert await other.void(jobs[0].lease, 1) == jobs[0].token.number
            starting = asyncio.ensure_future(begin(at, jobs[1]))
            assert await waits(home, starting)
        assert not await starting
        assert await states(at, jobs) == [State.RUNNING, State.CLAIMED]

    play(Stage(home), act)


def test_s3_a_start_waits_for_the_end_of_its_lease_and_is_refused(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await ahead(at, 1)
        async with rival(home) as other:
            await other.end_lease(job.lease, CRASH)
            starting = asyncio.ensure_future(begin(at, job))
            assert await waits(home, starting)
        assert not await starting

    play(Stage(home), act)


def test_s3_a_void_waits_for_the_end_of_its_lease_and_is_refused(home: Home) -> None:
    async def act(at: Scene) -> None:
        (job,) = await ahead(at, 1)
        async with rival(home) as other:
            await other.end_lease(job.lease, CRASH)
            voiding = asyncio.ensure_future(verbs(at.store).void(job.lease, 1))
            assert await waits(home, voiding)
        assert await voiding is None

    play(Stage(home), act)


def test_a_beat_does_not_skip_a_lease_whose_start_is_under_way(home: Home) -> None:
    async def act(at: Scene) -> None:
        jobs = await ahead(at, 2)
        assert await begin(at, jobs[0])
        async with rival(home) as other:
            assert await other.start_through(jobs[0].lease, jobs[1].token.number, 0)
            beating = asyncio.ensure_future(at.store.beat([jobs[0].lease]))
            assert not await waits(home, beating)
            assert (await beating).alive == {jobs[0].lease}

    play(Stage(home), act)


def test_l11_the_start_of_an_ended_lease_that_is_locked_keeps_only_that_lease(home: Home) -> None:
    async def act(at: Scene) -> None:
        for job in [(await ahead(at, 1))[0] for _ in range(2)]:
            assert await begin(at, job)
            await at.settle(done(job))
            await at.store.end_lease(job.lease, CRASH)
        at.advance(RETENTION_FLOOR + 1.0)
        with locked(home, "lease_starts", f"lease = '{job.lease}'"):
            pruning = asyncio.ensure_future(at.store.prune(10))
            assert not await waits(home, pruning)
            assert (await pruning).leases == 1
        assert (await at.store.prune(10)).leases == 1

    play(Stage(home), act)
