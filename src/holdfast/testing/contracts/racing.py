"""Races: several store objects on the same jobs, at the same time."""

import asyncio
from functools import partial
from uuid import UUID

from holdfast._core.answers import Answer, Duplicate, EnqueueAnswer
from holdfast._core.job import PLACE_OF, Place, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import JobFilter
from holdfast.testing.contracts.scene import TTL, Part, Scene, done, in_threads, insist, raised, rescued, story

STORES = 4
CRASH = LeaseEnd(RescueReason.EXPIRED)


class RaceContract(Part):
    """What holds under every order of calls."""

    @story
    async def test_each_job_is_claimed_by_exactly_one(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(120)))
        stores = [at.another() for _ in range(STORES)]
        requests = [at.request(await at.lease(), 10) for _ in range(STORES)]
        taken = []
        for _ in range(12):  # a claim that is not whole may leave jobs to the next round
            answers = await asyncio.gather(
                *(store.exchange((), request) for store, request in zip(stores, requests, strict=True))
            )
            assert all(len(answer.claims) <= 10 for answer in answers)
            taken += [claim.job for answer in answers for claim in answer.claims]
            if all(answer.is_whole and not answer.claims for answer in answers):
                break
            requests = [at.request(request.lease, 10) for request in requests]
        assert sorted(job.id for job in taken) == sorted(jobs)
        assert len({job.token.number for job in taken}) == len(jobs)

    @story
    async def test_copies_of_one_call_at_once_insert_once(self, at: Scene) -> None:
        stores = [at.another() for _ in range(STORES)]
        for _ in range(10):
            call, jobs = at.chance.uuid4(), [at.new() for _ in range(3)]
            await asyncio.gather(*(store.enqueue(call, jobs) for store in stores))
        assert await at.store.counts() == {("", State.AVAILABLE): 30}

    @story
    async def test_of_outcomes_sent_at_once_exactly_one_lands(self, at: Scene) -> None:
        stores = [at.another() for _ in range(3)]
        for _ in range(10):
            job = await at.running()
            await at.store.end_lease(job.lease, CRASH)
            moves = [done(job), raised(job), rescued(job, CRASH)]
            answers = await asyncio.gather(*(insist(store, [move]) for store, move in zip(stores, moves, strict=True)))
            landed = [move for move, answer in zip(moves, answers, strict=True) if answer.answers == (Answer.APPLIED,)]
            assert len(landed) == 1
            row = await at.row(job.id)
            assert [record.outcome for record in row.attempts] == [each.record for each in landed if each.record is not None]
            assert (row.failures, row.crashes) == (landed[0].failures, landed[0].crashes)

    @story
    async def test_copies_of_one_settle_at_once_count_once(self, at: Scene) -> None:
        stores = [at.another() for _ in range(STORES)]
        for _ in range(5):
            job = await at.running()
            answers = await asyncio.gather(*(insist(store, [raised(job)]) for store in stores))
            assert {answer.answers for answer in answers} == {(Answer.APPLIED,)}
            row = await at.row(job.id)
            assert (row.failures, len(row.attempts)) == (1, 1)

    @story
    async def test_a_lease_is_either_renewed_or_ended(self, at: Scene) -> None:
        owner, judge = at.another(), at.another()
        for _ in range(10):
            lease = await at.lease()
            at.advance(TTL + 1.0)
            (view,) = [view for view in await judge.expired(100) if view.id == lease]
            beat, ended = await asyncio.gather(owner.beat([lease]), judge.end_lease(lease, CRASH, seen=view.seen))
            assert (lease in beat.alive) is (ended is None)
            await at.store.end_lease(lease, CRASH)

    @story
    async def test_a_lease_that_ends_claims_all_or_nothing(self, at: Scene) -> None:
        await at.enqueue(*(at.new() for _ in range(100)))
        owner, judge = at.another(), at.another()
        for _ in range(10):
            lease = await at.lease()
            answer, _ = await asyncio.gather(owner.exchange((), at.request(lease, 5)), judge.end_lease(lease, CRASH))
            assert {claim.job for claim in answer.claims} == set(await at.store.held(lease))
            assert len(answer.claims) in (0, 5)
            assert await at.claim(lease) == ()

    @story
    async def test_owners_rescuers_and_operators_at_once_leave_every_job_in_one_place(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(delay=0.0) for _ in range(40)))
        stores = [at.another() for _ in range(STORES)]
        for round_ in range(6):
            lease = await at.lease()
            active_jobs = [claim.job for claim in await at.claim(lease, 20)]
            await at.store.end_lease(lease, CRASH)
            answers = await asyncio.gather(
                insist(stores[0], [done(job) for job in active_jobs[::2]]),
                insist(stores[1], [rescued(job, CRASH) for job in active_jobs]),
                stores[2].request_cancel(jobs[round_::7]),
                stores[3].reopen(jobs[round_::5]),
            )
            assert not {Answer.MISSING} & {*answers[0].answers, *answers[1].answers}
        rows = await at.store.list(JobFilter(limit=1000))
        assert sorted(row.id for row in rows) == sorted(jobs)
        assert not [row for row in rows if row.state in (State.RUNNING, State.CLAIMED)]
        assert sum((await at.store.counts()).values()) == len(jobs)

    @story
    async def test_of_many_who_ask_for_one_key_at_once_exactly_one_gets_it(self, at: Scene) -> None:
        stores = [at.another() for _ in range(STORES)]
        for round_ in range(10):
            jobs = [at.new(key=str(round_), payload=b"%d" % round_) for _ in stores]
            answers = in_threads(
                *(partial(store.enqueue, at.chance.uuid4(), [job]) for store, job in zip(stores, jobs, strict=True))
            )
            (winner,) = [job.id for job, answer in zip(jobs, answers, strict=True) if answer == EnqueueAnswer()]
            assert [answer.duplicates for job, answer in zip(jobs, answers, strict=True) if job.id != winner] == [
                {job.id: Duplicate(winner, is_same=True)} for job in jobs if job.id != winner
            ]
        assert await at.store.counts() == {("", State.AVAILABLE): 10}

    @story
    async def test_a_key_that_becomes_free_goes_to_one_at_most(self, at: Scene) -> None:
        stores = [at.another() for _ in range(5)]
        for round_ in range(10):
            key = str(round_)
            finished = await at.running(key=key)
            await at.settle(done(finished))
            job = await at.running(key=key)
            news = [at.new(key=key) for _ in range(2)]
            in_threads(
                partial(insist, stores[0], [done(job)]),
                partial(stores[1].reopen, [finished.id]),
                partial(stores[2].reopen, [job.id]),
                partial(stores[3].enqueue, at.chance.uuid4(), [news[0]]),
                partial(stores[4].enqueue, at.chance.uuid4(), [news[1]]),
            )
            rows = [row for row in await at.store.list(at.everything) if row.unique_key == key]
            unfinished = [row.id for row in rows if PLACE_OF[row.state] is not Place.FINISHED]
            assert len(unfinished) <= 1
            probe = at.new(key=key)
            answer = await at.send(probe)
            assert [each.job for each in answer.duplicates.values()] == unfinished

    @story
    async def test_a_child_is_there_if_and_only_if_its_call_was_not_lost(self, at: Scene) -> None:
        stores = [at.another() for _ in range(2)]
        for _ in range(10):
            job, child = await at.running(), at.new()
            call = at.chance.uuid4()
            in_threads(
                partial(insist, stores[0], [done(job)]),
                partial(stores[1].enqueue, call, [child], under=(job.id, job.token)),
            )
            answer = await at.store.enqueue(call, [child], under=(job.id, job.token))
            assert answer.is_lost is (await at.store.get(child.id) is None)

    @story
    async def test_one_store_serves_the_loops_of_several_threads(self, at: Scene) -> None:
        lines = [at.new_lease() for _ in range(STORES)]
        news = [[at.new(key=f"{number % 7}") if number % 3 == 0 else at.new() for number in range(20)] for _ in lines]
        calls = [[at.chance.uuid4() for _ in line] for line in news]
        requests = [[at.request(lease.id, 3) for _ in range(20)] for lease in lines]

        async def work(place: int) -> list[UUID]:
            await at.store.open_lease(lines[place])
            ran = []
            for call, job, request in zip(calls[place], news[place], requests[place], strict=True):
                await at.store.enqueue(call, [job])
                claims = (await at.store.exchange((), request)).claims
                answer = await at.store.exchange([done(claim.job) for claim in claims])
                assert set(answer.answers) <= {Answer.APPLIED}
                ran += [claim.job.id for claim in claims]
            return ran

        ran = [job for each in in_threads(*(partial(work, place) for place in range(STORES))) for job in each]
        lease, rest = await at.lease(), list[UUID]()
        while claims := await at.claim(lease, 100):
            rest += [claim.job.id for claim in claims]
            await at.settle(*(done(claim.job) for claim in claims))
        rows = await at.store.list(at.everything)
        assert sorted([*ran, *rest]) == sorted(row.id for row in rows)
        assert {row.state for row in rows} == {State.COMPLETED}
        assert await at.store.next_due(["task"]) is None
        assert all(view.holds == 0 for view in await at.store.workers())
