"""Unique keys that are held for a period, or that the first claim frees."""

from msgspec import structs

from holdfast._core.answers import Duplicate, EnqueueAnswer, ReopenAnswer
from holdfast._core.job import ActiveJob, NewJob, State
from holdfast._core.lifecycle import cancelled
from holdfast._core.outcome import Fail
from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._core.uniqueness import Uniqueness
from holdfast.testing.contracts.enqueuing import says_it_exists
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, released, story

NIGHT = 20 * 3600.0
NIGHTLY = Uniqueness(seconds=NIGHT)
LATEST = Uniqueness(until_started=True)


def keyed(at: Scene, terms: Uniqueness, key: str = "k") -> NewJob:
    """Make a job that holds its key on these terms."""
    return structs.replace(at.new(key=key), uniqueness=terms)


async def claimed(at: Scene, policy: Policy | None = None) -> ActiveJob:
    """Claim the job that is due first."""
    (claim,) = await at.claim(await at.lease(), 1, policy=policy)
    return claim.job


async def holder_of(at: Scene, terms: Uniqueness = NIGHTLY) -> object:
    """Return the job that holds the key now, if a new one with these terms finds one."""
    second = keyed(at, terms)
    answer = await at.send(second)
    return answer.duplicates[second.id].job if answer.duplicates else None


class KeyPeriodContract(Part):
    """What ``unique_for`` and ``unique_until`` promise."""

    @story
    async def test_a_completed_job_holds_its_key_until_its_period_is_over(self, at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, NIGHTLY))
        assert (await at.row(first)).uniqueness == NIGHTLY
        await at.settle(done(await claimed(at)))
        assert await at.state(first) is State.COMPLETED
        for terms in (NIGHTLY, LATEST, Uniqueness()):
            assert await holder_of(at, terms) == first
        at.advance(NIGHT - 60.0)
        assert await holder_of(at) == first
        at.advance(61.0)
        (second,) = await at.enqueue(keyed(at, NIGHTLY))
        assert await holder_of(at) == second

    @story
    async def test_an_unfinished_job_holds_its_key_after_its_period(self, at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, Uniqueness(seconds=60.0)))
        at.advance(61.0)
        assert await holder_of(at) == first
        job = await claimed(at)
        assert await holder_of(at) == first
        await at.settle(done(job))
        assert await holder_of(at) is None

    @story
    async def test_a_failed_or_cancelled_job_frees_its_key_at_once(self, at: Scene) -> None:
        for number, ending in enumerate(("failed", "cancelled", "cancelled while it waits")):
            (job,) = await at.enqueue(keyed(at, NIGHTLY, key=str(number)))
            if ending == "cancelled while it waits":
                await at.store.request_cancel([job])
            else:
                running = await claimed(at)
                await at.settle(answered(running, Fail("no")) if ending == "failed" else cancelled(running))
            (again,) = await at.enqueue(keyed(at, NIGHTLY, key=str(number)))
            assert again != job, ending
            await at.settle(done(await claimed(at)))

    @story
    async def test_the_first_claim_frees_a_key_until_started(self, at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, LATEST))
        assert await holder_of(at, LATEST) == first
        running = await claimed(at)
        (second,) = await at.enqueue(keyed(at, LATEST))
        assert await holder_of(at, LATEST) == second
        await at.settle(done(running))
        assert await holder_of(at, LATEST) == second
        assert (await at.row(first)).state is State.COMPLETED

    @story
    async def test_a_job_that_holds_its_key_on_any_terms_is_a_duplicate_of_itself(self, at: Scene) -> None:
        nightly, latest = keyed(at, NIGHTLY, "nightly"), keyed(at, LATEST, "latest")
        await at.enqueue(nightly, latest)
        for job in (nightly, latest):
            assert await at.send(job) == EnqueueAnswer({job.id: Duplicate(job.id, is_same=True)})
        await at.claim(await at.lease(), 2)
        assert (await at.send(nightly)).duplicates
        assert await says_it_exists(at, at.chance.uuid4(), latest)

    @story
    async def test_a_retry_never_asks_for_its_key_again(self, at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, LATEST))
        running = await claimed(at)
        (second,) = await at.enqueue(keyed(at, LATEST))
        await at.settle(raised(running))
        assert await at.state(first) is State.SCHEDULED
        assert await holder_of(at, LATEST) == second
        assert await at.store.reopen([first]) == ReopenAnswer({first: State.AVAILABLE})
        taken = {(await claimed(at)).id for _ in range(2)}
        assert taken == {first, second}

    @story
    async def test_a_claim_that_came_back_without_a_start_has_freed_its_key(self, at: Scene) -> None:
        (first,) = await at.enqueue(keyed(at, LATEST))
        await at.settle(released(await claimed(at)))
        assert await at.state(first) is State.AVAILABLE
        (second,) = await at.enqueue(keyed(at, LATEST))
        assert await holder_of(at, LATEST) == second

    @story
    async def test_both_terms_hold_a_key_for_the_longer_of_them(self, at: Scene) -> None:
        both = Uniqueness(seconds=60.0, until_started=True)
        (first,) = await at.enqueue(keyed(at, both))
        running = await claimed(at)
        assert await holder_of(at, both) == first
        at.advance(61.0)
        (second,) = await at.enqueue(keyed(at, both))
        at.advance(61.0)
        assert await holder_of(at, both) == second
        await at.settle(done(running))
        assert await holder_of(at, both) == second

    @story
    async def test_a_completed_job_is_kept_for_as_long_as_it_holds_its_key(self, at: Scene) -> None:
        (job,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(done(await claimed(at, Policy(retention=60.0))))
        at.advance(NIGHT - 120.0)
        await at.store.prune(100)
        row = await at.row(job)
        assert (row.is_stub, row.payload) == (False, b"{}")
        assert await holder_of(at) == job
        at.advance(RETENTION_FLOOR + 180.0)
        await at.store.prune(100)
        assert await at.store.get(job) is None
        assert await holder_of(at) is None

    @story
    async def test_a_deleted_job_frees_its_key(self, at: Scene) -> None:
        (job,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(done(await claimed(at)))
        await at.store.delete([job])
        assert await holder_of(at) is None

    @story
    async def test_a_failed_job_is_not_reopened_while_another_holds_its_key(self, at: Scene) -> None:
        (failed,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(answered(await claimed(at), Fail("no")))
        (second,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(done(await claimed(at)))
        assert await at.store.reopen([failed]) == ReopenAnswer({failed: State.FAILED}, {failed: second})
        assert await at.store.reopen([second]) == ReopenAnswer({second: State.AVAILABLE})
        await at.settle(done(await claimed(at)))
        at.advance(NIGHT + 1.0)
        assert await at.store.reopen([failed]) == ReopenAnswer({failed: State.AVAILABLE})
        assert await holder_of(at) == failed

    @story
    async def test_a_reopened_job_holds_its_key_for_its_period_again(self, at: Scene) -> None:
        (job,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(answered(await claimed(at), Fail("no")))
        await at.store.reopen([job])
        await at.settle(done(await claimed(at)))
        assert await holder_of(at) == job
        at.advance(NIGHT)
        assert await holder_of(at) is None

    @story
    async def test_another_payload_in_the_period_refuses_the_call(self, at: Scene) -> None:
        (job,) = await at.enqueue(keyed(at, NIGHTLY))
        await at.settle(done(await claimed(at)))
        other = structs.replace(keyed(at, NIGHTLY), payload=b"[2]")
        answer = await at.send(other, at.new())
        assert answer == EnqueueAnswer({other.id: Duplicate(job, is_same=False)})
        assert [row.id for row in await at.store.list(at.everything)] == [job]

    @story
    async def test_many_periods_end_in_one_call(self, at: Scene) -> None:
        olds = await at.enqueue(*(keyed(at, NIGHTLY, key=str(number)) for number in range(3)), keyed(at, LATEST, key="l"))
        for claim in await at.claim(await at.lease(), 10):
            await at.settle(done(claim.job))
        at.advance(NIGHT)
        news = await at.enqueue(*(keyed(at, NIGHTLY, key=str(number)) for number in range(3)), keyed(at, LATEST, key="l"))
        assert not {*olds} & {*news}
        seconds = [keyed(at, NIGHTLY, key=str(number)) for number in range(3)]
        assert {each.job for each in (await at.send(*seconds)).duplicates.values()} == {*news[:3]}
