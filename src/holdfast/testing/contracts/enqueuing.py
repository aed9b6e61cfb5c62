"""Enqueue: all or none, once."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.job import NewJob, State, Token
from holdfast._core.policy import Backoff, CrashPolicy, Policy
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, raised, released, story

HOSTILE = ("'; DROP TABLE jobs; --", 'a"b\\c', "päckchen 包 🎁", "%s {0} :x ?", " ", "a/../b")


async def says_it_exists(at: Scene, call: UUID, *jobs: NewJob) -> bool:
    """Return whether the call is refused for good, which is how a store reports that an id exists."""
    try:
        await at.store.enqueue(call, jobs)
    except HoldfastError as error:
        return not isinstance(error, StoreUnavailable)
    return False


class EnqueueContract(Part):
    """What enqueue promises."""

    @story
    async def test_a_job_is_read_as_it_was_enqueued(self, at: Scene) -> None:
        policy = Policy(
            max_attempts=7, max_crashes=2, backoff=Backoff.fixed("1s", "5s"), on_crash=CrashPolicy.HOLD, retention=9.0
        )
        job = at.new(queue="mail", lane="acme", priority=-5, payload=b'{"to": "you"}', policy=policy, tags=("a", "b"))
        await at.enqueue(job)
        row = await at.row(job.id)
        assert (row.id, row.task, row.queue, row.key, row.priority) == (job.id, "task", "mail", "acme", -5)
        assert row.payload == b'{"to": "you"}'
        assert (row.policy, row.tags, row.state, row.token) == (policy, ("a", "b"), State.AVAILABLE, Token(None, 0))
        assert (row.attempt, row.failures, row.crashes, row.attempts) == (0, 0, 0, ())
        assert row.created_at == row.available_at == datetime.fromtimestamp(at.clock.wall(), UTC)
        assert not row.cancel_requested
        untouched = (row.claimed_at, row.started_at, row.finished_at, row.reason, row.error, row.result, row.lease)
        assert untouched == (None,) * 7
        assert (row.worker, row.stage, row.fraction, row.message, row.last_progress_at, row.checkpoint) == (None,) * 6

    @story
    async def test_headers_stay_with_a_job_through_all_its_moves(self, at: Scene) -> None:
        headers, lease = (("tenant", "päckchen 🎁"), ("trace", "00-'a\"b\\c")), await at.lease()
        for way in ("alone", "with others", "with a unique key", "as a child"):
            job = at.new(task="traced", headers=headers, key=way if "unique" in way else None)
            others = [at.new(), at.new()] if way == "with others" else []
            await at.send(job, *others, under=await at.running() if "child" in way else None)
            assert (await at.row(job.id)).headers == headers, way
            for end in (released, raised, done):
                (claim,) = await at.claim(lease, 1, tasks=["traced"])
                assert claim.headers == headers, way
                assert (await at.row(job.id)).headers == headers, way
                await at.settle(end(claim.job))
                at.advance(10.0)
                assert (await at.row(job.id)).headers == headers, way
                await at.store.beat([lease])
            await at.store.reopen([job.id])
            assert (await at.row(job.id)).headers == headers, way
            await at.store.request_cancel([job.id])
            assert (await at.row(job.id)).headers == headers, way
        late = at.new(headers=headers, expires_in=1.0)
        (plain,) = await at.enqueue(at.new())
        await at.enqueue(late)
        at.advance(2.0)
        await at.store.expire(10)
        row = await at.row(late.id)
        assert (row.state, row.headers, (await at.row(plain)).headers) == (State.FAILED, headers, ())

    @story
    async def test_a_delayed_job_is_scheduled_until_its_time_has_come(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new(delay=10.0))
        assert await at.state(job) is State.SCHEDULED
        at.advance(10.0 - EARLY)
        assert await at.state(job) is State.SCHEDULED
        at.advance(EARLY)
        assert await at.state(job) is State.AVAILABLE

    @story
    async def test_a_time_to_run_at_counts_more_than_a_delay_in_any_zone(self, at: Scene) -> None:
        zone = timezone(timedelta(hours=-7))
        moment = datetime.fromtimestamp(at.clock.wall(), zone) + timedelta(seconds=20)
        (job,) = await at.enqueue(at.new(delay=5.0, run_at=moment))
        assert (await at.row(job)).available_at == moment
        at.advance(19.0)
        assert await at.state(job) is State.SCHEDULED
        at.advance(1.0)
        assert await at.state(job) is State.AVAILABLE

    @story
    async def test_a_time_to_run_at_that_has_passed_is_due_in_order(self, at: Scene) -> None:
        now = datetime.fromtimestamp(at.clock.wall(), UTC)
        first, overdue = await at.enqueue(at.new(), at.new(run_at=now - timedelta(days=1)))
        claims = await at.claim(await at.lease(), 2)
        assert [claim.job.id for claim in claims] == [overdue, first]

    @story
    async def test_the_second_copy_of_a_call_inserts_nothing(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        await at.store.enqueue(call, [job])
        await at.store.enqueue(call, [job])
        await at.another().enqueue(call, [job])
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    @story
    async def test_a_copy_of_a_call_that_comes_after_its_job_ran_changes_nothing(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        await at.store.enqueue(call, [job])
        (claim,) = await at.claim(await at.lease())
        await at.settle(done(claim.job))
        row = await at.row(job.id)
        at.advance(100.0)
        await at.store.enqueue(call, [job])
        assert await at.row(job.id) == row

    @story
    async def test_a_copy_of_a_call_that_comes_while_its_job_runs_changes_nothing(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        await at.store.enqueue(call, [job])
        await at.claim(await at.lease())
        rows = await at.store.list(at.everything)
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert await at.store.list(at.everything) == rows

    @story
    async def test_a_receipt_and_not_the_jobs_ids_identifies_a_copy(self, at: Scene) -> None:
        call = at.chance.uuid4()
        await at.store.enqueue(call, [at.new()])
        await at.store.enqueue(call, [at.new()])
        assert await at.store.counts() == {("", State.AVAILABLE): 1}

    @story
    async def test_a_deleted_job_of_which_the_call_had_the_id_can_be_enqueued_again(self, at: Scene) -> None:
        job = at.new()
        await at.store.enqueue(job.id, [job])
        await at.store.delete([job.id])
        assert await at.store.enqueue(job.id, [job]) == EnqueueAnswer()
        assert await at.store.list(at.everything) == ()
        assert await at.store.enqueue(at.chance.uuid4(), [job]) == EnqueueAnswer()
        assert [each.id for each in await at.store.list(at.everything)] == [job.id]

    @story
    async def test_a_call_with_an_id_that_exists_inserts_none_of_its_jobs_and_leaves_no_receipt(self, at: Scene) -> None:
        waiting, running, ended = at.new(), await at.running(), await at.running()
        await at.enqueue(waiting)
        await at.settle(done(ended))
        before = await at.store.list(at.everything)
        call, news = at.chance.uuid4(), [at.new(), at.new(), at.new(key="k")]
        for known in (waiting, *(structs.replace(at.new(), id=job.id) for job in (running, ended))):
            assert await says_it_exists(at, call, news[0], known, news[1])
            assert await says_it_exists(at, call, *news, known)
        assert await says_it_exists(at, call, news[0], news[0])
        assert await at.store.list(at.everything) == before
        assert await at.store.enqueue(call, news) == EnqueueAnswer()
        assert len(await at.store.list(at.everything)) == len(before) + len(news)

    @story
    async def test_an_id_that_exists_matters_only_where_its_job_would_be_inserted(self, at: Scene) -> None:
        keyed, running, ended = at.new(key="k"), await at.running(), await at.running()
        await at.enqueue(keyed)
        await at.settle(done(ended))
        itself = EnqueueAnswer({keyed.id: Duplicate(keyed.id, is_same=True)})
        assert await at.send(keyed) == itself
        for known in (structs.replace(at.new(), id=job.id) for job in (running, ended)):
            assert (await at.send(at.new(), known, under=ended)).is_lost
            assert (await at.send(known, structs.replace(keyed, payload=b"0"))).is_refused
        (claim,) = await at.claim(await at.lease(), queues=(keyed.queue,))
        assert await at.send(keyed) == itself
        await at.settle(done(claim.job))
        assert await says_it_exists(at, at.chance.uuid4(), keyed)

    @story
    async def test_payloads_come_back_byte_for_byte(self, at: Scene) -> None:
        payloads = [
            b"",
            b"null",
            b"\x00\xff\xfe not json",
            b"[" * 10_000,
            "ä€🎁\\u0000".encode(),
            b"x" * 300_000,
            b"y" * 512,
            b"z" * 513,
        ]
        jobs = await at.enqueue(*(at.new(payload=payload) for payload in payloads))
        assert [(await at.row(job)).payload for job in jobs] == payloads
        assert [claim.payload for claim in await at.claim(await at.lease(), 10)] == payloads

    @story
    async def test_names_and_tags_are_only_text(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(task=name, queue=name, tags=(name,)) for name in HOSTILE))
        assert [(row.task, row.queue, row.tags) for row in [await at.row(job) for job in jobs]] == [(n, n, (n,)) for n in HOSTILE]
        for name, job in zip(HOSTILE, jobs, strict=True):
            (claim,) = await at.claim(await at.lease(), 10, tasks=[name], queues=(name,))
            assert (claim.job.id, claim.job.task) == (job, name)

    @story
    async def test_a_thousand_jobs_are_one_call(self, at: Scene) -> None:
        jobs = await at.enqueue(*(at.new(payload=b"%d" % number) for number in range(1000)))
        claims = await at.claim(await at.lease(), 1000)
        assert [claim.job.id for claim in claims] == list(jobs)
        assert [int(claim.payload) for claim in claims] == list(range(1000))

    @story
    async def test_an_empty_enqueue_does_nothing(self, at: Scene) -> None:
        await at.enqueue()
        assert await at.store.counts() == {}
