"""Races: several store objects on the same jobs, at the same time."""

import asyncio

from holdfast._core.job import State
from holdfast._core.lifecycle import End, LeaseEnd
from holdfast._ports.store import Answer, JobFilter
from holdfast.testing.contracts.scene import TTL, Part, Scene, done, raised, rescued, story

STORES = 4
CRASH = LeaseEnd(End.EXPIRED)


class RaceContract(Part):
    """What holds however calls interleave."""

    @story
    async def test_each_job_is_claimed_by_exactly_one(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(120)))
        stores = [at.another() for _ in range(STORES)]
        requests = [at.request(await at.lease(), 10) for _ in range(STORES)]
        taken = []
        for _ in range(4):
            answers = await asyncio.gather(
                *(store.exchange((), request) for store, request in zip(stores, requests, strict=True))
            )
            assert all(len(answer.claims) <= 10 for answer in answers)
            taken += [claim.hold for answer in answers for claim in answer.claims]
            requests = [at.request(request.lease, 10) for request in requests]
        assert sorted(hold.job for hold in taken) == sorted(jobs)
        assert len({hold.token.number for hold in taken}) == len(jobs)

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
            hold = await at.running()
            await at.store.end_lease(hold.lease, CRASH)
            moves = [done(hold), raised(hold), rescued(hold, CRASH)]
            answers = await asyncio.gather(*(store.exchange([move]) for store, move in zip(stores, moves, strict=True)))
            landed = [move for move, answer in zip(moves, answers, strict=True) if answer.answers == (Answer.APPLIED,)]
            assert len(landed) == 1
            row = await at.row(hold.job)
            assert [record.outcome for record in row.attempts] == [each.record for each in landed if each.record is not None]
            assert (row.failures, row.crashes) == (landed[0].failures, landed[0].crashes)

    @story
    async def test_copies_of_one_settle_at_once_count_once(self, at: Scene) -> None:
        stores = [at.another() for _ in range(STORES)]
        for _ in range(5):
            hold = await at.running()
            answers = await asyncio.gather(*(store.exchange([raised(hold)]) for store in stores))
            assert {answer.answers for answer in answers} == {(Answer.APPLIED,)}
            row = await at.row(hold.job)
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
            assert {claim.hold for claim in answer.claims} == set(await at.store.held(lease))
            assert len(answer.claims) in (0, 5)
            assert await at.claim(lease) == ()

    @story
    async def test_owners_rescuers_and_operators_at_once_leave_every_job_in_one_place(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(delay=0.0) for _ in range(40)))
        stores = [at.another() for _ in range(STORES)]
        for round_ in range(6):
            lease = await at.lease()
            holds = [claim.hold for claim in await at.claim(lease, 20)]
            await at.store.end_lease(lease, CRASH)
            answers = await asyncio.gather(
                stores[0].exchange([done(hold) for hold in holds[::2]]),
                stores[1].exchange([rescued(hold, CRASH) for hold in holds]),
                stores[2].request_cancel(jobs[round_::7]),
                stores[3].reopen(jobs[round_::5]),
            )
            assert not {Answer.MISSING} & {*answers[0].answers, *answers[1].answers}
        rows = await at.store.list(JobFilter(limit=1000))
        assert sorted(row.id for row in rows) == sorted(jobs)
        assert not [row for row in rows if row.state in (State.RUNNING, State.CLAIMED)]
        assert sum((await at.store.counts()).values()) == len(jobs)
