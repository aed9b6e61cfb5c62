"""Claim: due jobs of known tasks, in order, each to one living lease."""

from datetime import UTC, datetime

from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.outcome import Snooze
from holdfast._core.policy import Policy
from holdfast._core.requests import ProgressUpdate
from holdfast.testing.contracts.scene import EARLY, TTL, Part, Scene, answered, done, raised, released, stale, story


class ClaimContract(Part):
    """What a claim promises."""

    @story
    async def test_jobs_are_claimed_by_priority_then_time_then_id(self, at: Scene) -> None:
        jobs = [at.new(priority=1), at.new(), at.new(priority=-1, delay=5.0), at.new(delay=2.0), at.new(), at.new(priority=-1)]
        late, first, urgent_later, later, second, urgent = await at.enqueue(*jobs)
        at.advance(5.0)
        claims = await at.claim(await at.lease(), 10)
        assert [claim.job.id for claim in claims] == [urgent, urgent_later, first, second, later, late]

    @story
    async def test_priority_goes_across_tasks_and_queues_and_time_across_tasks(self, at: Scene) -> None:
        jobs = [at.new(task=task, queue=queue, priority=priority) for priority in (2, 0, 1) for task in "ab" for queue in "xyz"]
        await at.enqueue(*jobs)
        lease, taken = await at.lease(), []
        while claims := await at.claim(lease, 4, tasks="ab"):
            taken += [(claim.priority, claim.job.queue, claim.job.id) for claim in claims]
        assert [priority for priority, _, _ in taken] == sorted(job.priority for job in jobs)
        for queue in "xyz":
            in_queue = sorted((job for job in jobs if job.queue == queue), key=lambda job: (job.priority, job.id))
            assert [job for _, lane, job in taken if lane == queue] == [job.id for job in in_queue]

    @story
    async def test_a_claim_takes_no_more_than_asked(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue=queue) for queue in "ab" for _ in range(5)))
        lease = await at.lease()
        assert len(await at.claim(lease, 3)) == 3
        assert len(await at.claim(lease, 0)) == 0
        assert len(await at.claim(lease, 2, prefetch=1)) == 3
        assert len(await at.claim(lease, 100)) == 4
        assert await at.claim(lease, 100) == ()

    @story
    async def test_a_claimed_job_is_born_running(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(payload=b'{"n": 1}'))
        at.advance(3.0)
        lease = await at.lease(worker="web-1-42-0000abcd")
        request = at.request(lease)
        (claim,) = (await at.store.exchange((), request)).claims
        row, now = await at.row(job), datetime.fromtimestamp(at.clock.wall(), UTC)
        assert (claim.payload, claim.checkpoint) == (b'{"n": 1}', None)
        assert (claim.job.id, claim.job.lease, claim.job.task, claim.job.state) == (job, lease, "task", State.RUNNING)
        assert (claim.job.attempt, claim.job.failures, claim.job.crashes) == (1, 0, 0)
        assert claim.job.token.claim == request.claim
        assert (row.state, row.token, row.lease, row.attempt) == (State.RUNNING, claim.job.token, lease, 1)
        assert (row.worker, row.claimed_at, row.started_at) == ("web-1-42-0000abcd", now, now)
        assert await at.store.held(lease) == (claim.job,)

    @story
    async def test_prefetched_jobs_follow_those_that_run_and_have_not_started(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new() for _ in range(4)))
        claims = await at.claim(await at.lease(), 1, prefetch=2)
        assert [claim.job.id for claim in claims] == list(jobs[:3])
        assert [claim.job.state for claim in claims] == [State.RUNNING, State.CLAIMED, State.CLAIMED]
        assert [claim.job.attempt for claim in claims] == [1, 0, 0]
        row = await at.row(jobs[1])
        assert (row.state, row.attempt, row.started_at) == (State.CLAIMED, 0, None)
        assert row.claimed_at is not None

    @story
    async def test_jobs_of_unknown_tasks_and_other_queues_are_left_alone(self, at: Scene) -> None:
        unknown, elsewhere, ours = await at.enqueue(at.new(task="unknown"), at.new(queue="b"), at.new(queue="a"))
        lease = await at.lease()
        assert await at.claim(lease, 10, tasks=["other"]) == ()
        assert await at.claim(lease, 10, tasks=[]) == ()
        assert await at.claim(lease, 10, queues=()) == ()
        assert [claim.job.id for claim in await at.claim(lease, 10, queues=("a", "z"))] == [ours]
        assert [await at.state(job) for job in (unknown, elsewhere)] == [State.AVAILABLE] * 2
        assert [claim.job.id for claim in await at.claim(lease, 10)] == [elsewhere]

    @story
    async def test_more_urgent_jobs_that_are_unknown_or_not_due_hide_nothing(self, at: Scene) -> None:
        await at.enqueue(*(at.new(task="unknown", priority=-9) for _ in range(5)))
        await at.enqueue(*(at.new(priority=priority, delay=100.0) for priority in (-9, -8, 0) for _ in range(5)))
        (job,) = await at.enqueue(at.new(priority=5))
        assert [claim.job.id for claim in await at.claim(await at.lease(), 2)] == [job]

    @story
    async def test_a_job_is_due_exactly_at_its_time(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(delay=10.0, queue=queue, priority=n) for n, queue in enumerate("aabb")))
        lease = await at.lease()
        at.advance(10.0 - EARLY)
        assert await at.claim(lease, 10) == ()
        at.advance(EARLY)
        assert [claim.job.id for claim in await at.claim(lease, 10)] == list(jobs)

    @story
    async def test_a_claim_has_the_time_for_which_its_job_was_due_and_no_pause_before_that(self, at: Scene) -> None:
        await at.enqueue(at.new(delay=10.0))
        at.advance(50.0)
        (first,) = await at.claim(await at.lease(), 1)
        await at.settle(answered(first.job, Snooze(for_="5s")))
        at.advance(8.0)
        (again,) = await at.claim(await at.lease(), 1)
        assert (round(first.waited), round(again.waited)) == (40, 3)

    @story
    async def test_jobs_due_later_in_a_line_are_not_taken_to_fill_a_claim(self, at: Scene) -> None:
        due = await at.enqueue(*(at.new(delay=float(n)) for n in range(3)))
        await at.enqueue(*(at.new(delay=100.0 + n) for n in range(10)))
        at.advance(5.0)
        for room in (5, 1):
            claims = await at.claim(await at.lease(), room)
            assert [claim.job.id for claim in claims] == (list(due) if room == 5 else [])
        (now,) = await at.enqueue(at.new())
        assert [claim.job.id for claim in await at.claim(await at.lease(), 3)] == [now]

    @story
    async def test_a_long_line_in_one_queue_does_not_hide_urgent_jobs_in_the_next(self, at: Scene) -> None:
        await at.enqueue(*(at.new(queue="a", priority=9) for _ in range(5)))
        urgent = await at.enqueue(*(at.new(queue="b", priority=n) for n in range(3)))
        claims = await at.claim(await at.lease(), 3)
        assert [claim.job.id for claim in claims] == list(urgent)

    @story
    async def test_history_in_more_urgent_lines_hides_nothing(self, at: Scene) -> None:
        lease = await at.lease()
        for priority in (-3, -2, -1):
            await at.enqueue(*(at.new(priority=priority) for _ in range(5)))
            await at.settle(*(done(claim.job) for claim in await at.claim(lease, 5)))
            await at.enqueue(at.new(priority=priority, delay=100.0))
        (job,) = await at.enqueue(at.new())
        assert [claim.job.id for claim in await at.claim(lease, 2)] == [job]

    @story
    async def test_a_job_is_claimed_once(self, at: Scene) -> None:
        await at.enqueue(at.new())
        assert len(await at.claim(await at.lease(), 5)) == 1
        assert await at.claim(await at.lease(), 5) == ()

    @story
    async def test_only_a_living_lease_claims(self, at: Scene) -> None:
        await at.enqueue(at.new())
        ended, old = await at.lease(), await at.lease()
        await at.store.end_lease(ended, LeaseEnd(RescueReason.CLOSED))
        assert await at.claim(ended) == ()
        assert await at.claim(at.chance.uuid4()) == ()
        at.advance(TTL + EARLY)
        assert await at.claim(old) == ()
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    @story
    async def test_a_lease_claims_until_the_very_end_of_its_ttl_and_again_after_a_beat(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new())
        lease = await at.lease()
        at.advance(TTL)
        assert len(await at.claim(lease)) == 1
        at.advance(EARLY)
        assert await at.claim(lease) == ()
        await at.store.beat([lease])
        assert len(await at.claim(lease)) == 1

    @story
    async def test_the_policy_of_the_claim_is_written_on_the_row(self, at: Scene) -> None:
        policy = Policy(max_attempts=9)
        job = await at.running(policy=policy)
        assert job.policy == policy
        assert (await at.row(job.id)).policy == policy
        assert (await at.store.held(job.lease))[0].policy == policy

    @story
    async def test_claim_numbers_grow_and_never_repeat(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new(), at.new())
        lease, numbers = await at.lease(), []
        for _ in range(3):
            claims = await at.claim(lease, 2)
            numbers += [claim.job.token.number for claim in claims]
            await at.settle(*(raised(claim.job) for claim in claims))
            at.advance(10.0)
        (job,) = await at.enqueue(at.new(priority=-1))
        (claim,) = await at.claim(lease)
        await at.settle(done(claim.job))
        await at.store.reopen([job])
        assert (await at.row(job)).token.number == claim.job.token.number
        (again,) = await at.claim(lease)
        assert again.job.id == job
        numbers += [claim.job.token.number, again.job.token.number]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0

    @story
    async def test_numbers_go_on_when_the_newest_claims_have_been_settled(self, at: Scene) -> None:
        lease, numbers = await at.lease(), []
        for _ in range(3):
            await at.enqueue(at.new())
            (claim,) = await at.claim(lease)
            await at.settle(done(claim.job))
            numbers.append(claim.job.token.number)
        assert numbers == sorted(set(numbers))

    @story
    async def test_the_next_attempt_gets_checkpoint_and_budgets(self, at: Scene) -> None:
        job = await at.running()
        await at.store.report([ProgressUpdate(job=job.id, token=job.token, checkpoint=b'{"next": 17}')])
        await at.settle(raised(job))
        at.advance(10.0)
        (claim,) = await at.claim(job.lease)
        assert (claim.checkpoint, claim.job.attempt, claim.job.failures) == (b'{"next": 17}', 2, 1)
        assert claim.job.token.claim != job.token.claim
        assert claim.job.token.number > job.token.number

    @story
    async def test_what_an_exchange_releases_it_can_claim(self, at: Scene) -> None:
        job = await at.prefetched()
        answer = await at.exchange(released(job), at.request(job.lease))
        assert [claim.job.id for claim in answer.claims] == [job.id]
        assert answer.claims[0].job.token != job.token

    @story
    async def test_an_exchange_settles_although_it_may_not_claim(self, at: Scene) -> None:
        job = await at.running()
        await at.enqueue(at.new())
        await at.store.end_lease(job.lease, LeaseEnd(RescueReason.CLOSED))
        answer = await at.exchange(done(job), at.request(job.lease))
        assert answer.claims == ()
        assert await at.state(job.id) is State.COMPLETED

    @story
    async def test_nothing_is_settled_by_what_is_claimed_beside_a_settle_that_is_lost(self, at: Scene) -> None:
        job = await at.running()
        lost = structs.replace(job, token=stale(job.token))
        for is_named in (True, False):
            jobs = await at.enqueue(at.new())
            answer = await at.exchange(raised(lost), at.request(job.lease, ids=jobs if is_named else None))
            assert (answer.answers, [claim.job.id for claim in answer.claims]) == ((Answer.LOST,), [*jobs])
        assert await at.settle(done(job)) == (Answer.APPLIED,)

    @story
    async def test_walking_many_ranges_finds_the_most_urgent_first(self, at: Scene) -> None:
        lines = [(f"t{task}", f"q{queue}", priority) for task in range(3) for queue in range(4) for priority in range(-3, 3)]
        jobs = [
            at.new(task=task, queue=queue, priority=priority, delay=delay)
            for task, queue, priority in lines
            for delay in (0.0, 1.0, 1000.0)
        ]
        await at.enqueue(*jobs)
        at.advance(1.0)
        due = sorted((job for job in jobs if job.delay <= 1.0), key=lambda job: (job.priority, job.delay, job.id))
        lease, taken, known = await at.lease(), [], ("t0", "t1", "t2", "t3")
        for limit in (1, 2, 7, 50, 100):
            taken += [(claim.priority, claim.job.queue, claim.job.id) for claim in await at.claim(lease, limit, tasks=known)]
        assert [priority for priority, _, _ in taken] == [job.priority for job in due]
        for queue in {job.queue for job in jobs}:
            assert [job for _, lane, job in taken if lane == queue] == [job.id for job in due if job.queue == queue]
