"""Pruning: what is deleted, and what must still be known until then."""

from typing import NamedTuple

from msgspec import structs

from holdfast._core.answers import MOST_ATTEMPTS, Answer, EnqueueAnswer, Pruned, ReopenAnswer
from holdfast._core.job import ActiveJob, AttemptOutcome, Failure, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition
from holdfast._core.outcome import Cancel, Fail, Snooze
from holdfast._core.policy import RETENTION_FLOOR, CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import AttemptNote, ProgressUpdate
from holdfast.testing.contracts.scene import EARLY, Part, Scene, answered, done, raised, released, rescued, story

CRASH = LeaseEnd(RescueReason.CRASHED)
NOTHING = Pruned()
ALL = 1000
SHORT = 60.0
LONG = 10 * RETENTION_FLOOR


class Kept(NamedTuple):
    """The number of jobs that the store still lists, and how many of them are stubs."""

    jobs: int
    stubs: int


async def kept(at: Scene) -> Kept:
    """Count the jobs that the store lists, and the stubs among them."""
    rows = await at.store.list(at.everything)
    return Kept(len(rows), len([row for row in rows if row.is_stub]))


async def running(at: Scene, retention: float) -> ActiveJob:
    """Start a job of a task with that retention."""
    return await at.running(policy=Policy(retention=retention))


async def pruned(at: Scene, limit: int = ALL) -> tuple[int, int]:
    """Run one pass of pruning; return how many jobs it deleted, and how many it reduced to stubs."""
    answer = await at.store.prune(limit)
    return answer.jobs, answer.stubs


class PruneContract(Part):
    """What retention promises."""

    @story
    async def test_a_finished_job_is_kept_for_its_retention_and_then_forgotten(self, at: Scene) -> None:
        for end in (done, raised, lambda job: answered(job, Fail("no")), lambda job: answered(job, Cancel("no"))):
            job = await at.running(policy=Policy(retention=LONG, max_attempts=1))
            await at.settle(end(job))
            before = await at.row(job.id)
            at.advance(LONG - EARLY)
            assert await pruned(at) == (0, 0)
            assert await at.row(job.id) == before
            at.advance(EARLY)
            assert await pruned(at) == (1, 0)
            assert await at.store.get(job.id) is None
            assert await kept(at) == Kept(0, 0)

    @story
    async def test_a_failed_or_expired_job_has_a_separate_retention(self, at: Scene) -> None:
        policy = Policy(retention=LONG, retention_failed=3 * LONG, max_attempts=1)
        completed, failed = await at.running(policy=policy), await at.running(policy=policy)
        (late,) = await at.enqueue(at.new(policy=policy, expires_in=1.0))
        at.advance(2.0)
        assert [each.job for each in await at.store.expire(10)] == [late]
        await at.settle(done(completed), raised(failed))
        at.advance(LONG)
        assert await pruned(at) == (1, 0)
        assert [await at.state(job) for job in (failed.id, late)] == [State.FAILED, State.FAILED]
        at.advance(2 * LONG - 3.0)
        assert await pruned(at) == (0, 0)
        at.advance(3.0)
        assert await pruned(at) == (2, 0)
        assert await kept(at) == Kept(0, 0)

    @story
    async def test_a_job_that_was_cancelled_while_it_ran_is_forgotten_as_others_are(self, at: Scene) -> None:
        job = await running(at, LONG)
        await at.store.request_cancel([job.id])
        await at.settle(released(job))
        assert await at.state(job.id) is State.CANCELLED
        at.advance(LONG - EARLY)
        assert await pruned(at) == (0, 0)
        at.advance(EARLY)
        assert await pruned(at) == (1, 0)

    @story
    async def test_unfinished_jobs_are_never_pruned(self, at: Scene) -> None:
        policy = Policy(retention=0.0)
        await at.enqueue(at.new(policy=policy), at.new(policy=policy, delay=1e9))
        retried = await running(at, 0.0)
        await at.settle(raised(retried))
        await running(at, 0.0)
        await at.prefetched()
        before = await at.store.list(at.everything)
        at.advance(1e6)
        assert await pruned(at) == (0, 0)
        assert {row.id for row in await at.store.list(at.everything)} == {row.id for row in before}

    @story
    async def test_no_retention_is_shorter_than_the_floor_but_only_the_outcome_is_kept_so_long(self, at: Scene) -> None:
        for retention in (0.0, SHORT):
            job = await running(at, retention)
            update = ProgressUpdate(job=job.id, token=job.token, stage="s", fraction=0.5, message="m", checkpoint=b"1")
            await at.store.report([update])
            await at.settle(done(job, b'"secret"'))
            before = await at.row(job.id)
            if retention:
                at.advance(retention - EARLY)
                assert await pruned(at) == (0, 0)
                assert await at.row(job.id) == before
                at.advance(EARLY)
            assert await pruned(at) == (0, 1)
            gone = {"payload": b"null", "result": None, "error": None, "checkpoint": None, "message": None}
            assert await at.row(job.id) == structs.replace(before, **gone, is_stub=True)
            assert await pruned(at) == (0, 0)
            at.advance(RETENTION_FLOOR - retention - EARLY)
            assert await pruned(at) == (0, 0)
            at.advance(EARLY)
            assert await pruned(at) == (1, 0)
            assert await at.store.get(job.id) is None

    @story
    async def test_a_job_that_never_ran_is_pruned_by_the_policy_it_was_enqueued_with(self, at: Scene) -> None:
        policy = Policy(retention=SHORT)
        cancelled, late = await at.enqueue(at.new(policy=policy), at.new(policy=policy, expires_in=1.0))
        at.advance(1.0)
        await at.store.request_cancel([cancelled])
        await at.store.expire(10)
        at.advance(SHORT)
        assert await pruned(at) == (0, 2)
        rows = {job: await at.row(job) for job in (cancelled, late)}
        reasons = {job: (row.state, row.reason) for job, row in rows.items()}
        assert reasons == {cancelled: (State.CANCELLED, Reason.BY_OPERATOR), late: (State.FAILED, Reason.EXPIRED)}
        at.advance(RETENTION_FLOOR)
        assert await pruned(at) == (2, 0)

    @story
    async def test_a_long_payload_goes_with_the_stub_and_with_the_job(self, at: Scene) -> None:
        policy = Policy(retention=0.0)
        job = at.new(payload=b"x" * 5000, policy=policy)
        await at.enqueue(job)
        await at.store.request_cancel([job.id])
        assert await pruned(at) == (0, 1)
        assert (await at.row(job.id)).payload == b"null"
        at.advance(RETENTION_FLOOR)
        assert await pruned(at) == (1, 0)
        await at.enqueue(structs.replace(job, payload=b"y" * 6000))
        assert (await at.row(job.id)).payload == b"y" * 6000

    @story
    async def test_a_settle_sent_again_gets_its_answer_while_a_stub_is_left(self, at: Scene) -> None:
        moves = {}
        for end in (done, lambda active: answered(active, Fail("no")), lambda active: answered(active, Cancel("no"))):
            active = await running(at, 0.0)
            moves[active.id] = [end(active)]
            await at.settle(end(active))
        again = await at.running(policy=Policy(retention=0.0))
        await at.settle(raised(again))
        at.advance(10.0)
        (claim,) = await at.claim(again.lease, policy=Policy(retention=0.0))
        await at.settle(done(claim.job))
        moves[again.id] = [raised(again), done(claim.job)]
        assert await pruned(at) == (0, 4)
        for job, sent in moves.items():
            before = await at.row(job)
            assert set(await at.settle(*sent)) == {Answer.APPLIED}
            assert await at.settle(structs.replace(released(again), job=job, token=sent[-1].token)) == (Answer.LOST,)
            assert await at.row(job) == before
        at.advance(RETENTION_FLOOR)
        assert await pruned(at) == (4, 0)
        assert {answer for sent in moves.values() for answer in await at.settle(*sent)} == {Answer.MISSING}

    @story
    async def test_a_stub_is_never_reopened(self, at: Scene) -> None:
        stub, whole, keyed = (
            await running(at, 0.0),
            await running(at, LONG),
            await at.running(policy=Policy(retention=0.0), key="k"),
        )
        await at.settle(done(stub), done(whole), done(keyed))
        await at.store.prune(ALL)
        before = await at.row(stub.id)
        await at.enqueue(at.new(key="k"))  # nothing is lost: the stub would not have come back anyway
        states = {stub.id: State.COMPLETED, whole.id: State.AVAILABLE, keyed.id: State.COMPLETED}
        assert await at.store.reopen([stub.id, whole.id, keyed.id]) == ReopenAnswer(states)
        assert await at.row(stub.id) == before
        assert await at.store.request_cancel([stub.id]) == {stub.id: State.COMPLETED}
        assert await at.store.delete([stub.id]) == {}
        assert await at.store.get(stub.id) is None

    @story
    async def test_all_that_is_remembered_of_a_job_goes_with_it(self, at: Scene) -> None:
        job = await running(at, 0.0)
        await at.store.end_lease(job.lease, CRASH)
        await at.settle(rescued(job, CRASH))
        (claim,) = await at.claim(await at.lease(), queues=((await at.row(job.id)).queue,), policy=job.policy)
        await at.settle(done(claim.job))
        at.advance(RETENTION_FLOOR)
        await at.store.prune(ALL)
        await at.store.annotate([AttemptNote(job=job.id, token=job.token, late_result=b"1", error=Failure("E", "late"))])
        assert await at.settle(rescued(job, CRASH), done(claim.job), done(job)) == (Answer.MISSING,) * 3
        await at.enqueue(structs.replace(at.new(), id=job.id))
        assert (await at.row(job.id)).attempts == ()

    @story
    async def test_of_a_job_that_snoozes_or_is_released_endlessly_only_the_newest_attempts_are_kept(self, at: Scene) -> None:
        job = await at.running(policy=Policy(retention=LONG))
        queues = ((await at.row(job.id)).queue,)
        again = Snooze(0.0)

        async def turn(move: Transition) -> ActiveJob:
            await at.settle(move)
            at.advance(1.0)
            (claim,) = await at.claim(job.lease, queues=queues, policy=job.policy)
            return claim.job

        first = answered(job, again)
        failed = await turn(first)
        given_back = await turn(raised(failed))
        unstarted = await turn(released(given_back, code_ran=True))
        newest = await turn(released(unstarted))
        last = answered(newest, again)
        await at.settle(last)
        before = await at.row(job.id)
        assert (await at.store.prune(ALL)).attempts == 0
        at.advance(RETENTION_FLOOR - 1.0)
        # The oldest first: two snoozed, one released with and one without code of it having run, and one that failed.
        assert [(await at.store.prune(2)).attempts for _ in range(3)] == [2, 1, 0]
        assert await at.settle(last, first) == (Answer.APPLIED, Answer.LOST)
        kept = await at.row(job.id)
        assert [each.token for each in kept.attempts] == [failed.token, newest.token]
        assert structs.replace(kept, attempts=before.attempts) == before
        at.advance(1.0)
        assert await at.store.prune(ALL) == Pruned(attempts=1)
        assert [each.token for each in (await at.row(job.id)).attempts] == [failed.token]

    @story
    async def test_of_code_that_was_cut_short_and_is_not_run_again_the_record_stays(self, at: Scene) -> None:
        for on_crash, state in ((CrashPolicy.HOLD, State.HELD), (CrashPolicy.FAIL, State.FAILED)):
            job = await at.running(policy=Policy(on_crash=on_crash, retention=LONG))
            await at.settle(released(job, code_ran=True))
            before = await at.row(job.id)
            assert (before.state, [each.outcome for each in before.attempts]) == (state, [AttemptOutcome.RELEASED])
            at.advance(RETENTION_FLOOR)
            assert (await at.store.prune(ALL)).attempts == 0
            assert await at.row(job.id) == before

    @story
    async def test_only_the_newest_of_many_attempts_are_read(self, at: Scene) -> None:
        older, job = await at.running(), await at.running()
        await at.settle(raised(older))
        queues = ((await at.row(job.id)).queue,)
        for _ in range(MOST_ATTEMPTS + 2):
            await at.settle(answered(job, Snooze(0.0)), released(job))
            (claim,) = await at.claim(job.lease, queues=queues)
            job = claim.job
        await at.settle(released(job))
        attempts = (await at.row(job.id)).attempts
        assert [each.attempt for each in attempts] == list(range(3, MOST_ATTEMPTS + 3))
        assert [each.attempt for each in (await at.row(older.id)).attempts] == [1]

    @story
    async def test_a_reopened_job_counts_from_its_new_end(self, at: Scene) -> None:
        job = await running(at, LONG)
        await at.settle(done(job))
        at.advance(LONG - 1.0)
        await at.store.reopen([job.id])
        at.advance(LONG)
        (claim,) = await at.claim(await at.lease(), queues=((await at.row(job.id)).queue,), policy=job.policy)
        assert await pruned(at) == (0, 0)
        await at.settle(done(claim.job))
        at.advance(LONG - 1.0)
        assert await pruned(at) == (0, 0)
        at.advance(1.0)
        assert await pruned(at) == (1, 0)

    @story
    async def test_no_more_than_asked_of_each_kind_and_the_oldest_first(self, at: Scene) -> None:
        jobs: dict[float, list[JobRecord]] = {0.0: [], LONG: []}
        for _ in range(3):
            for retention, rows in jobs.items():
                job = await running(at, retention)
                await at.settle(done(job))
                await at.store.end_lease(job.lease, CRASH)
                rows.append(await at.row(job.id))
                at.advance(1.0)
        assert await at.store.prune(0) == NOTHING
        assert await at.store.prune(2) == Pruned(stubs=2)
        assert [(await at.row(row.id)).is_stub for row in jobs[0.0]] == [True, True, False]
        assert await at.store.prune(2) == Pruned(stubs=1)
        assert await at.store.prune(2) == NOTHING
        at.advance(RETENTION_FLOOR)
        answers = [await at.store.prune(2) for _ in range(4)]
        assert [(answer.jobs, answer.leases) for answer in answers] == [(2, 2), (1, 2), (0, 2), (0, 0)]
        assert [answer.receipts for answer in answers] in ([2, 2, 2, 0], [0, 0, 0, 0])  # some stores keep one with its job
        at.advance(LONG)
        assert (await at.store.prune(2)).total == 2
        assert [row.id for row in await at.store.list(at.everything)] == [jobs[LONG][2].id]

    @story
    async def test_a_job_whose_whole_time_has_passed_becomes_no_stub_while_others_are_forgotten_first(self, at: Scene) -> None:
        rows = []
        for _ in range(2):
            job = await running(at, LONG)
            await at.settle(done(job))
            rows.append(await at.row(job.id))
            at.advance(RETENTION_FLOOR)
        at.advance(LONG - RETENTION_FLOOR)
        assert await pruned(at, 1) == (1, 0)
        assert await at.store.list(at.everything) == (rows[1],)
        assert await pruned(at, 1) == (1, 0)

    @story
    async def test_a_receipt_is_kept_for_the_floor(self, at: Scene) -> None:
        call, lost, job = at.chance.uuid4(), at.chance.uuid4(), at.new(policy=Policy(retention=0.0))
        active = await running(at, LONG)
        await at.settle(done(active))
        await at.store.enqueue(call, [job])
        assert (await at.store.enqueue(lost, [at.new()], under=(active.id, active.token))).is_lost
        await at.store.delete([job.id])
        at.advance(RETENTION_FLOOR - EARLY)
        await at.store.prune(ALL)
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert (await at.store.enqueue(lost, [at.new()])).is_lost
        assert await at.store.get(job.id) is None
        at.advance(EARLY)
        assert (await at.store.prune(ALL)).receipts >= 2
        for forgotten in (call, lost):
            new = at.new()
            assert await at.store.enqueue(forgotten, [new]) == EnqueueAnswer()
            assert await at.state(new.id) is State.AVAILABLE

    @story
    async def test_receipts_of_a_clock_that_was_years_ahead_keep_no_later_ones(self, at: Scene) -> None:
        years = 10 * 365 * 86400.0
        at.step_wall(years)
        ahead = [each for _ in range(3) for each in await at.enqueue(at.new())]
        at.step_wall(-years)
        later = [each for _ in range(2) for each in await at.enqueue(at.new())]
        await at.store.delete([*ahead, *later])
        at.advance(RETENTION_FLOOR)
        assert (await at.store.prune(ALL)).receipts == 2

    @story
    async def test_a_lease_is_kept_while_it_lives_or_holds_jobs_and_for_the_floor_after(self, at: Scene) -> None:
        alive, ended, unborn, holding = at.new_lease(), at.new_lease(), at.new_lease(), await at.running()
        for lease in (alive, ended):
            await at.store.open_lease(lease)
        for lease in (ended, unborn):
            await at.store.end_lease(lease.id, CRASH)
        await at.store.end_lease(holding.lease, CRASH)
        at.advance(RETENTION_FLOOR - EARLY)
        assert (await at.store.prune(ALL)).leases == 0
        assert not await at.store.open_lease(ended)
        at.advance(EARLY)
        assert (await at.store.prune(ALL)).leases == 2
        assert [view.id for view in await at.store.workers()] == [alive.id]
        assert (await at.store.beat([alive.id, holding.lease])).gone == {holding.lease}
        assert await at.store.end_lease(holding.lease, LeaseEnd(RescueReason.CLOSED)) == CRASH
        await at.settle(rescued(holding, CRASH))
        assert (await at.store.prune(ALL)).leases == 1
        assert await at.store.open_lease(ended)

    @story
    async def test_a_wall_clock_that_steps_back_forgets_nothing_early(self, at: Scene) -> None:
        job = await running(at, 0.0)
        await at.settle(done(job))
        at.step_wall(-3600.0)
        assert await pruned(at) == (0, 0)
        assert not (await at.row(job.id)).is_stub
