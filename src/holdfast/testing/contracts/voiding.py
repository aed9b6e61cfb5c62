"""Voids: a worker loses the right to start jobs that it has claimed, and they return to their queues."""

import asyncio
from functools import partial
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, State
from holdfast._core.lifecycle import Precondition, Transition, voided
from holdfast._ports.prefetching import Prefetching
from holdfast._ports.store import Store
from holdfast.testing.contracts.prefetching import ahead, begin, begin_through, not_claimed_ahead, states, verbs
from holdfast.testing.contracts.scene import Part, Scene, done, in_threads, insist, needs, released, story


class VoidContract(Part):
    """What is promised when a supervisor takes jobs from a worker that lives and starts nothing."""

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_void_answers_what_has_started_and_refuses_every_earlier_start(self, at: Scene) -> None:
        jobs = await ahead(at)
        await begin(at, jobs[0])
        for _ in range(2):
            assert await verbs(at.store).void(jobs[0].lease, 1) == jobs[0].token.number
        assert not await begin(at, jobs[3])
        assert await states(at, jobs) == [State.RUNNING] + [State.CLAIMED] * 3
        assert not await begin(at, jobs[3], voids=2)
        assert await begin(at, jobs[1], voids=1)
        assert await verbs(at.store).void(jobs[0].lease, 3) == jobs[1].token.number
        assert await verbs(at.store).void(jobs[0].lease, 2) == jobs[1].token.number
        assert not await begin(at, jobs[2], voids=2)
        assert await begin(at, jobs[2], voids=3)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_void_before_any_start_answers_zero(self, at: Scene) -> None:
        jobs = await ahead(at)
        assert await verbs(at.store).void(jobs[0].lease, 1) == 0
        assert not await begin(at, jobs[0])
        assert await begin(at, jobs[0], voids=1)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s25_voided_jobs_return_free_to_their_positions(self, at: Scene) -> None:
        jobs = await ahead(at)
        before = [await at.row(job.id) for job in jobs]
        at.advance(1.0)
        await begin(at, jobs[0])
        await verbs(at.store).void(jobs[0].lease, 1)
        answers = await at.settle(*(voided(job, 1) for job in jobs))
        assert answers == (Answer.LOST, *[Answer.APPLIED] * 3)
        rows = [await at.row(job.id) for job in jobs]
        assert [(row.state, row.attempt) for row in rows] == [(State.RUNNING, 1)] + [(State.AVAILABLE, 0)] * 3
        assert [row.available_at for row in rows] == [row.available_at for row in before]
        queue = rows[1].queue
        assert [claim.job.id for claim in await at.claim(await at.lease(), 3, queues=(queue,))] == [job.id for job in jobs[1:]]
        assert await at.settle(done(jobs[0])) == (Answer.APPLIED,)
        assert await at.settle(done(jobs[1])) == (Answer.LOST,)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_voided_transition_lands_only_under_the_voids_it_names(self, at: Scene) -> None:
        (job,) = await ahead(at, 1)
        moves = [voided(job, 0), voided(job, 1), structs.replace(released(job), precondition=Precondition.VOIDED, voids=-1)]
        assert await at.settle(moves[0]) == await at.settle(moves[1]) == await at.settle(moves[2]) == (Answer.LOST,)
        (earlier,) = await ahead(at, 1)
        assert await verbs(at.store).start_through(job.lease, job.token.number - 1, 0)
        assert await at.settle(voided(job, 0)) == (Answer.LOST,)
        await verbs(at.store).void(job.lease, 2)
        assert await at.settle(voided(job, 1), voided(earlier, 2)) == (Answer.LOST,) * 2
        assert await at.settle(voided(job, 2)) == (Answer.APPLIED,)
        assert await at.settle(voided(job, 2)) == (Answer.APPLIED,)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_void_of_one_lease_takes_no_job_of_another(self, at: Scene) -> None:
        (job,), (other,) = await ahead(at, 1), await ahead(at, 1)
        await verbs(at.store).void(other.lease, 1)
        assert await at.settle(voided(job, 1), voided(other, 1)) == (Answer.LOST, Answer.APPLIED)
        assert await begin(at, job)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_void_of_a_lease_without_a_start_answers_zero_beside_one_with(self, at: Scene) -> None:
        (other,), (job,) = await ahead(at, 1), await ahead(at, 1)
        assert await begin(at, job)
        assert await verbs(at.store).void(other.lease, 1) == 0

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s26_a_claim_takes_jobs_only_under_the_voids_it_names(self, at: Scene) -> None:
        (job,), queue = await ahead(at, 1), str(at.chance.uuid4())
        await at.enqueue(*(at.new(queue=queue) for _ in range(3)))

        async def taken(voids: int | None) -> int:
            request = at.request(job.lease, 0, prefetch=1, queues=(queue,))
            return len((await at.store.exchange((), structs.replace(request, voids=voids))).claims)

        assert [await taken(1), await taken(0)] == [0, 1]
        await verbs(at.store).void(job.lease, 1)
        assert [await taken(0), await taken(1), await taken(None)] == [0, 1, 1]

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_a_job_that_was_started_one_by_one_is_not_voided(self, at: Scene) -> None:
        jobs = await ahead(at, 2)
        await verbs(at.store).void(jobs[0].lease, 1)
        assert await at.store.start([(jobs[1].id, jobs[1].token)]) == frozenset()
        assert await at.settle(*(voided(job, 1) for job in jobs)) == (Answer.APPLIED, Answer.LOST)

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s1_of_a_start_and_a_void_at_once_exactly_one_has_each_job(self, at: Scene) -> None:
        owner, judge = at.another(), at.another()
        for _ in range(10):
            jobs = await ahead(at, 3)
            is_begun, given = await asyncio.gather(begin_through(owner, jobs[1]), void_and_return(judge, jobs))
            assert given == ({job.id for job in jobs[2:]} if is_begun else {job.id for job in jobs})
            assert not await begin_through(owner, jobs[2])
            found = await states(at, jobs)
            assert found == [State.RUNNING if job.id not in given else State.AVAILABLE for job in jobs]

    @story
    @needs(Prefetching, not_claimed_ahead)
    async def test_s1_of_voids_and_starts_in_many_threads_none_has_a_job_of_another(self, at: Scene) -> None:
        stores = [at.another() for _ in range(3)]
        for _ in range(10):
            jobs = await ahead(at, 3)
            moves = [voided(job, 1) for job in jobs]
            await verbs(at.store).void(jobs[0].lease, 1)
            answers = in_threads(
                partial(landed, stores[0], moves),
                partial(void_again, stores[1], jobs[0].lease),
                partial(begun_after, stores[2], jobs[-1]),
            )
            given = answers[0]
            found = await states(at, jobs)
            assert found == [State.AVAILABLE if job.id in given else State.RUNNING for job in jobs]


async def void_and_return(store: Store, jobs: list[ActiveJob]) -> set[UUID]:
    """Void the lease of the jobs, as a supervisor does, and return those that went back to their queues."""
    await verbs(store).void(jobs[0].lease, 1)
    return await landed(store, [voided(job, 1) for job in jobs])


async def landed(store: Store, moves: list[Transition]) -> set[UUID]:
    """Send the transitions, and return the jobs that they moved."""
    answers = (await insist(store, moves)).answers
    return {move.job for move, answer in zip(moves, answers, strict=True) if answer is Answer.APPLIED}


async def void_again(store: Store, lease: UUID) -> set[UUID]:
    """Void the lease once more."""
    await verbs(store).void(lease, 2)
    return set()


async def begun_after(store: Store, job: ActiveJob) -> set[UUID]:
    """Start the jobs of its lease under the second void, as soon as that is there."""
    while not await verbs(store).start_through(job.lease, job.token.number, 2):
        pass
    return set()
