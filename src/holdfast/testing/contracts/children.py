"""Children: jobs enqueued by a job, under its token; and transactions that a handler or a caller shares with the store."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from msgspec import structs

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.job import ActiveJob, RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._engine import store_defaults
from holdfast.errors import JobLost, Unsupported
from holdfast.testing.contracts.reporting import wrong
from holdfast.testing.contracts.scene import TTL, Part, Scene, done, raised, released, rescued, stale, story

CRASH = LeaseEnd(RescueReason.CRASHED)
LOST = EnqueueAnswer(is_lost=True)


async def enter(at: Scene, job: ActiveJob) -> str:
    """Enter a job's transaction, and return how that ended."""
    try:
        async with store_defaults.transaction(at.store, job.id, job.token, idle=5.0):
            return "open"
    except (Unsupported, JobLost) as error:
        return f"{type(error).__name__} {error}"


def blocking_enter(open_: Callable[[], AbstractContextManager[object]]) -> str:
    """Enter a transaction in code without a loop, and return how that ended."""
    try:
        with open_():
            return "open"
    except (Unsupported, JobLost) as error:
        return f"{type(error).__name__} {error}"


def refusal(act: Callable[[], object]) -> str:
    """Return the text of the error that the act raised."""
    try:
        return f"done: {act()}"
    except Unsupported as error:
        return f"{type(error).__name__} {error}"


class ChildContract(Part):
    """What a job that enqueues others, or shares a transaction with the store, is promised."""

    @story
    async def test_an_owner_enqueues_children_while_it_has_its_job(self, at: Scene) -> None:
        for active in (await at.running(), await at.prefetched()):
            jobs = [at.new(), at.new()]
            assert await at.send(*jobs, under=active) == EnqueueAnswer()
            assert [await at.state(job.id) for job in jobs] == [State.AVAILABLE] * 2

    @story
    async def test_a_child_of_a_job_that_was_lost_is_not_inserted(self, at: Scene) -> None:
        for move in (done, raised, partial(released, code_ran=True)):
            job = await at.running()
            await at.settle(move(job))
            assert await at.send(at.new(), at.new(), under=job) == LOST
        assert await at.claim(await at.lease(), 100, queues=("default",)) == ()

    @story
    async def test_only_the_token_that_owns_the_job_has_children(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        tokens = (
            stale(job.token),
            stale(job.token, -1),
            Token(at.chance.uuid4(), job.token.number),
            Token(None, job.token.number),
            other.token,
        )
        for token in tokens:
            assert await at.send(at.new(), under=structs.replace(job, token=token)) == LOST
        assert await at.send(at.new(), under=structs.replace(job, id=at.chance.uuid7())) == LOST
        (waiting,) = await at.enqueue(at.new())
        pending = structs.replace(job, id=waiting, token=(await at.row(waiting)).token)
        assert await at.send(at.new(), under=pending) == LOST
        assert await at.store.counts("queue") == {
            ("default", State.AVAILABLE): 1,
            **{((await at.row(each.id)).queue, State.RUNNING): 1 for each in (job, other)},
        }

    @story
    async def test_a_zombie_has_children_until_its_job_has_moved_and_never_after(self, at: Scene) -> None:
        job = await at.running()
        at.advance(TTL + 1.0)
        await at.store.end_lease(job.lease, CRASH)
        assert await at.send(at.new(), under=job) == EnqueueAnswer()
        await at.settle(rescued(job, CRASH))
        assert await at.send(at.new(), under=job) == LOST
        (claim,) = await at.claim(await at.lease(), queues=((await at.row(job.id)).queue,))
        assert await at.send(at.new(), under=job) == LOST
        assert await at.send(at.new(), under=claim.job) == EnqueueAnswer()

    @story
    async def test_a_copy_of_a_lost_call_stays_lost_and_one_of_an_early_call_stays_so(self, at: Scene) -> None:
        active = await at.running()
        early, late, job, child = at.chance.uuid4(), at.chance.uuid4(), at.new(), at.new()
        assert await at.store.enqueue(early, [child], under=(active.id, active.token)) == EnqueueAnswer()
        await at.settle(done(active))
        assert await at.store.enqueue(late, [job], under=(active.id, active.token)) == LOST
        for store in (at.store, at.another()):
            assert await store.enqueue(late, [job], under=(active.id, active.token)) == LOST
            assert await store.enqueue(late, [job]) == LOST
            assert await store.enqueue(early, [child], under=(active.id, active.token)) == EnqueueAnswer()
        assert [row.id for row in await at.store.list(at.everything)] == [child.id, active.id]

    @story
    async def test_a_child_with_a_key_is_answered_like_any_other(self, at: Scene) -> None:
        job = await at.running()
        (holder,) = await at.enqueue(at.new(key="k"))
        same, other = at.new(key="k"), at.new(key="k", payload=b"[]")
        assert await at.send(same, under=job) == EnqueueAnswer({same.id: Duplicate(holder, is_same=True)})
        assert (await at.send(other, at.new(), under=job)).is_refused
        await at.settle(done(job))
        assert await at.send(same, at.new(key="free"), under=job) == LOST
        assert await at.store.counts() == {("", State.AVAILABLE): 1, ("", State.COMPLETED): 1}
        await at.enqueue(at.new(key="free"))

    @story
    async def test_a_child_with_its_parents_key_is_the_parent(self, at: Scene) -> None:
        job = await at.running(key="k")
        child = at.new(key="k")
        assert await at.send(child, under=job) == EnqueueAnswer({child.id: Duplicate(job.id, is_same=True)})

    @story
    async def test_a_transaction_needs_the_token_or_is_unsupported(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        lost = [structs.replace(job, token=token) for token in wrong(job, at)] + [structs.replace(job, id=other.id)]
        if at.store.capabilities.caller_transaction:
            assert await enter(at, job) == "open"
            assert [(await enter(at, each)).split()[0] for each in lost] == ["JobLost"] * len(lost)
        else:
            for each in (job, *lost):
                answer = await enter(at, each)
                assert answer.startswith("Unsupported")
                assert at.store.capabilities.name in answer
        assert await at.state(job.id) is State.RUNNING

    @story
    async def test_a_blocking_transaction_does_the_same(self, at: Scene) -> None:
        job = await at.running()
        lost = structs.replace(job, token=stale(job.token))
        opens = [partial(store_defaults.blocking_transaction, at.store, each.id, each.token, idle=5.0) for each in (job, lost)]
        answers = [await asyncio.to_thread(blocking_enter, open_) for open_ in opens]
        if at.store.capabilities.caller_transaction:
            assert [each.split()[0] for each in answers] == ["open", "JobLost"]
        else:
            assert all(each.startswith("Unsupported") and at.store.capabilities.name in each for each in answers)
        assert await at.state(job.id) is State.RUNNING

    @story
    async def test_a_transaction_on_a_connection_of_another_kind_is_refused(self, at: Scene) -> None:
        job = await at.running()
        for own in (object(), "connection"):
            open_ = partial(store_defaults.blocking_transaction, at.store, job.id, job.token, idle=5.0, within=own)
            answer = blocking_enter(open_)
            assert answer.startswith("Unsupported")
            assert at.store.capabilities.name in answer.lower()
        assert await at.state(job.id) is State.RUNNING

    @story
    async def test_a_connection_of_another_kind_is_refused_and_nothing_is_inserted(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        answers = [
            refusal(partial(store_defaults.enqueue_within, at.store, connection, call, [job])) for connection in (object(), None)
        ]
        assert all(each.startswith("Unsupported") and at.store.capabilities.name in each.lower() for each in answers)
        assert await at.store.counts() == {}
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert await at.state(job.id) is State.AVAILABLE
