"""The guards of the MongoDB store that only a rival, an election or a deposed primary would notice.

``scripts/mutate_mongo.py`` takes each of them out, and expects one of these tests, or one of the contract, to fail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, deadline_exceeded_elsewhere
from holdfast._core.policy import Policy
from holdfast._core.requests import IsolatedJobs, ProgressUpdate
from holdfast.databases.mongo.database import CODEC
from holdfast.databases.mongo.errors import raise_for_reply
from holdfast.errors import JobLost, StoreUnavailable
from holdfast.stores.mongo.documents import date
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.capacity import ALL, limit
from holdfast.testing.contracts.scene import Scene, done, rescued, stale, story
from tests.contract.test_mongo import AtHome

CRASH = LeaseEnd(RescueReason.CRASHED)
HOUR = 3600.0
WRITES = ("insert", "update", "findAndModify")
MAJORITY = {"w": "majority", "j": True}


class Sent(CommandListener):
    """The commands that a driver has sent, and the time that each reply has shown."""

    def __init__(self, store: MongoStore) -> None:
        self.commands = list[Mapping[str, Any]]()
        self.times = dict[int, Any]()
        self._numbers = list[int]()
        options = store.database._options
        store.database._options = lambda *given: {**options(*given), "event_listeners": [self]}  # type: ignore[method-assign]

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(event.command)
        self._numbers.append(event.request_id)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.times[self._numbers.index(event.request_id)] = event.reply.get("operationTime")

    def failed(self, event: CommandFailedEvent) -> None:
        pass

    def named(self, verb: str, name: str) -> list[int]:
        """Return the places of commands on a collection."""
        return [place for place, each in enumerate(self.commands) if each.get(verb) == f"holdfast.{name}"]


def once_before(
    store: MongoStore, is_meant: Callable[[Mapping[str, Any], Any], bool], act: Callable[[], Awaitable[object]]
) -> None:
    """Do something just before the store sends the first command that is meant."""
    write, left = store.database.write, [act]

    async def intervene(command: dict[str, Any], *, session: Any = None, **more: Any) -> dict[str, Any]:
        if left and is_meant(command, session):
            await left.pop()()
        return await write(command, session=session, **more)

    store.database.write = intervene  # type: ignore[method-assign]


def takes_jobs(command: Mapping[str, Any], session: Any) -> bool:
    return command.get("update") == "holdfast.jobs" and session is None


def puts_back(command: Mapping[str, Any], session: Any) -> bool:
    """Return whether a command undoes a claim."""
    change = command["updates"][0]["u"] if "updates" in command else ()
    return isinstance(change, dict) and change.get("$set", {}).get("state") == "available"


def inserts_jobs(command: Mapping[str, Any], session: Any) -> bool:
    return command.get("insert") == "holdfast.jobs"


def is_in_transaction(command: Mapping[str, Any], session: Any) -> bool:
    return session is not None


class TestGuards(AtHome):
    """One member, whose clock follows the test's."""

    def own(self, at: Scene) -> MongoStore:
        """Make a store whose connections are its own."""
        store = self.home.own_store(at.clock)
        at._closing.push_async_callback(store.close)
        assert isinstance(store, MongoStore)
        return store

    def documents(self, name: str) -> Any:
        """Return the collection as tests read it, with ids as stores write them."""
        return self.home._database.get_collection(f"holdfast.{name}", codec_options=CODEC)

    def barriers(self) -> int:
        """Return how many barriers have been written."""
        return int((self.documents("state").find_one({"_id": "barrier"}) or {"number": 0})["number"])

    @story
    async def test_s15_every_write_waits_for_a_majority_and_every_transaction_reads_one_snapshot(self, at: Scene) -> None:
        at.store = self.own(at)
        sent = Sent(at.store)
        active = await at.running()
        assert await at.store.report([ProgressUpdate(job=active.id, token=active.token, stage="half")]) == frozenset()
        assert (await at.store.beat([active.lease])).alive == {active.lease}
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        assert await at.store.end_lease(active.lease, CRASH) == CRASH
        single = [each for each in sent.commands if next(iter(each)) in WRITES and "autocommit" not in each]
        commits = [each for each in sent.commands if "commitTransaction" in each]
        believed = [each for each in (*single, *commits) if each.get("findAndModify") != "holdfast.state"]
        assert len(believed) > 4
        assert [each for each in believed if each["writeConcern"] != MAJORITY] == []
        begun = [each for each in sent.commands if each.get("startTransaction")]
        assert {each["readConcern"]["level"] for each in begun} == {"snapshot"}

    @story
    async def test_s1_a_claim_reads_back_what_a_majority_has_after_its_write(self, at: Scene) -> None:
        at.store = self.own(at)
        sent = Sent(at.store)
        await at.running()
        (taken,), (read,) = (
            sent.named("update", "jobs"),
            [place for place in sent.named("aggregate", "leases") if place > sent.named("update", "jobs")[0]],
        )
        concern = sent.commands[read]["readConcern"]
        assert concern["level"] == "majority"
        assert concern["afterClusterTime"] >= sent.times[taken]

    @story
    async def test_s5_a_claim_that_lands_after_the_end_of_its_lease_is_undone(self, at: Scene) -> None:
        (job,), lease, store = await at.enqueue(at.new()), await at.lease(), self.own(at)
        once_before(store, takes_jobs, lambda: at.store.end_lease(lease, CRASH))
        assert (await store.exchange((), at.request(lease))).claims == ()
        row = await at.row(job)
        assert (row.state, row.attempt, row.lease) == (State.AVAILABLE, 0, None)
        assert await at.store.expired(10) == ()
        (claim,) = await at.claim(await at.lease())
        assert (claim.job.id, claim.job.token.number > row.token.number) == (job, True)

    @story
    async def test_s10_a_job_is_not_put_back_once_its_cancellation_was_requested(self, at: Scene) -> None:
        (job,), lease, store = await at.enqueue(at.new()), await at.lease(), self.own(at)
        once_before(store, takes_jobs, lambda: at.store.end_lease(lease, CRASH))
        once_before(store, puts_back, lambda: at.store.request_cancel([job]))
        assert (await store.exchange((), at.request(lease))).claims == ()
        (active,) = await at.store.held(lease)
        assert await at.settle(rescued(active, CRASH)) == (Answer.APPLIED,)
        assert await at.state(job) is State.CANCELLED

    @story
    async def test_s1_a_claim_takes_nothing_that_moved_since_it_was_picked(self, at: Scene) -> None:
        (job,), store, rival = await at.enqueue(at.new()), self.own(at), await at.lease()
        once_before(store, takes_jobs, lambda: at.claim(rival))
        assert (await store.exchange((), at.request(await at.lease()))).claims == ()
        assert [each.id for each in await at.store.held(rival)] == [job]

    @story
    async def test_s1_a_claim_takes_nothing_that_was_put_off_since_it_was_picked(self, at: Scene) -> None:
        (job,), store = await at.enqueue(at.new()), self.own(at)
        once_before(store, takes_jobs, lambda: at.store.reschedule([job], delay=60.0))
        assert (await store.exchange((), at.request(await at.lease()))).claims == ()
        assert await at.state(job) is State.SCHEDULED

    @story
    async def test_s2_numbers_of_a_job_grow_although_the_counter_was_forgotten(self, at: Scene) -> None:
        first = await at.running()
        self.documents("state").update_one({"_id": "claims"}, {"$set": {"number": 0}})
        at.advance(1.0)
        await at.store.end_lease(first.lease, CRASH)
        assert await at.settle(rescued(first, CRASH)) == (Answer.APPLIED,)
        at.advance(HOUR)
        (again,) = await at.claim(await at.lease(), queues=(first.queue,), isolated=IsolatedJobs.INCLUDE)
        assert again.job.token.number > first.token.number

    @story
    async def test_s10_nothing_negative_is_answered_before_a_write_of_the_same_call_has_a_majority(self, at: Scene) -> None:
        active, unknown = await at.running(), UUID(int=7)
        lost = structs.replace(active, token=stale(active.token))
        update = ProgressUpdate(job=active.id, token=stale(active.token), stage="half")
        negative: list[Callable[[], Awaitable[object]]] = [
            lambda: at.settle(done(lost)),
            lambda: at.store.report([update]),
            lambda: at.store.start([(active.id, stale(active.token))]),
            lambda: at.store.beat([unknown]),
            lambda: at.store.held(unknown),
            lambda: at.store.get(unknown),
            lambda: self.own(at).start_through(unknown, 1, 0),
        ]
        for ask in negative:
            before = self.barriers()
            await ask()
            assert self.barriers() > before

    def test_an_instant_is_never_stored_earlier_than_it_is(self) -> None:
        assert date(datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)) == datetime(2026, 1, 1, microsecond=1000, tzinfo=UTC)

    @pytest.mark.parametrize(
        "reply",
        [
            {"ok": 1, "n": 1, "writeConcernError": {"code": 189, "errmsg": "primary stepped down"}},
            {"ok": 1, "n": 0, "writeErrors": [{"code": 189, "errmsg": "primary stepped down"}]},
        ],
    )
    def test_s15_what_a_deposed_primary_answers_is_unknown(self, reply: Mapping[str, Any]) -> None:
        with pytest.raises(StoreUnavailable):
            raise_for_reply("here", reply)

    @story
    async def test_s13_documents_of_a_handler_are_not_kept_once_another_process_took_its_job(self, at: Scene) -> None:
        active, store = await at.running(policy=Policy(timeout=1.0)), self.own(at)
        at.advance(HOUR)

        async def write_beside_a_rescue() -> None:
            async with store.transaction(active.id, active.token, idle=60.0) as session:
                await session.client.get_default_database()["rows"].insert_one({"_id": 1}, session=session)
                late = deadline_exceeded_elsewhere(active, RescueReason.TIMED_OUT, jitter=0.0)
                assert await at.settle(late) == (Answer.APPLIED,)

        with pytest.raises(JobLost):
            await write_beside_a_rescue()
        assert self.home._database["rows"].count_documents({}) == 0

    @story
    async def test_a_report_does_not_disturb_the_transaction_of_a_handler(self, at: Scene) -> None:
        active, store = await at.running(), self.own(at)
        async with store.transaction(active.id, active.token, idle=60.0):
            update = ProgressUpdate(job=active.id, token=active.token, stage="half")
            assert await at.store.report([update]) == frozenset()
        assert (await at.row(active.id)).stage == "half"

    @story
    async def test_strings_from_outside_are_not_evaluated(self, at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        (claim,) = await at.claim(await at.lease(worker="$payload"))
        update = ProgressUpdate(job=job, token=claim.job.token, stage="$task", message="$$ROOT")
        assert await at.store.report([update]) == frozenset()
        row = await at.row(job)
        assert (row.worker, row.stage, row.message) == ("$payload", "$task", "$$ROOT")

    @story
    async def test_l1_a_beat_by_a_clock_that_is_behind_takes_the_lead_of_the_one_before(self, at: Scene) -> None:
        lease = await at.lease()
        self.home.clock.advance(HOUR)
        await at.store.beat([lease])
        self.home.clock.advance(-HOUR)
        await at.store.beat([lease])
        self.home.clock.advance(31.0)
        assert [each.id for each in await at.store.expired(10)] == [lease]

    @story
    async def test_s5_a_lease_of_another_term_is_judged_by_watching_it(self, at: Scene) -> None:
        lease = await at.lease()
        self.documents("leases").update_one({"_id": lease}, {"$inc": {"term": -1}})
        self.home.clock.advance(HOUR)
        assert await at.store.expired(10) == ()
        at.clock.advance(31.0)
        (found,) = await at.store.expired(10)
        assert await at.store.end_lease(lease, CRASH, seen=found.seen) == CRASH

    @story
    async def test_s5_a_lease_is_not_judged_by_the_clock_of_a_primary_whose_term_the_judge_did_not_know(self, at: Scene) -> None:
        lease, store = await at.lease(), self.own(at)
        await store.beat([lease])
        store.database.term -= 1  # as before the election: nothing was written since
        self.documents("leases").update_one({"_id": lease}, {"$set": {"term": store.database.term}})
        self.home.clock.advance(HOUR)
        assert await store.expired(10) == ()

    @story
    async def test_s5_no_limit_of_a_job_is_judged_soon_after_an_election(self, at: Scene) -> None:
        active, store = await at.running(policy=Policy(timeout=1.0)), self.own(at)
        await store.beat([active.lease])
        store._terms.learn(store.database.term - 1)
        self.home.clock.advance(HOUR)
        assert await store.overdue(10) == ()
        at.clock.advance(61.0)
        assert len(await store.overdue(10)) == 1

    @story
    async def test_s5_no_job_starts_under_a_lease_that_ends_in_the_meantime(self, at: Scene) -> None:
        active, store = await at.prefetched(), self.own(at)
        once_before(store, is_in_transaction, lambda: at.store.end_lease(active.lease, CRASH))
        assert await store.start([(active.id, active.token)]) == {active.id}
        assert await at.state(active.id) is State.CLAIMED

    @story
    async def test_s3_no_child_is_added_under_a_token_that_moves_in_the_meantime(self, at: Scene) -> None:
        active, store, child = await at.running(), self.own(at), at.new()
        once_before(store, is_in_transaction, lambda: at.settle(done(active)))
        assert (await store.enqueue(at.chance.uuid4(), [child], under=(active.id, active.token))).is_lost
        assert await at.store.get(child.id) is None

    @story
    async def test_s10_a_copy_of_a_call_does_not_bring_a_deleted_job_back(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        for _ in range(2):
            await at.store.enqueue(call, [job])
            await at.store.delete([job.id])
        await at.store.enqueue(call, [job])
        assert await at.store.get(job.id) is None

    @story
    async def test_s10_a_copy_of_a_call_is_recognised_after_an_operator_changed_its_job(self, at: Scene) -> None:
        call, job = at.chance.uuid4(), at.new()
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert await at.store.request_cancel([job.id]) == {job.id: State.CANCELLED}
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()

    @story
    async def test_s10_of_two_copies_of_a_call_at_once_with_other_ids_one_is_inserted(self, at: Scene) -> None:
        call, store, one, other = at.chance.uuid4(), self.own(at), at.new(), at.new()
        once_before(store, inserts_jobs, lambda: at.store.enqueue(call, [one]))
        await store.enqueue(call, [other])
        assert await at.store.get(other.id) is None
        assert await at.state(one.id) is State.AVAILABLE

    @story
    async def test_s1_a_claim_takes_nothing_that_its_operator_paused_or_limited_since_it_looked(self, at: Scene) -> None:
        (job,), lease = await at.enqueue(at.new()), await at.lease()
        for forbid in (partial(limit, at, ALL, concurrency=1), partial(at.store.pause, ["default"], is_paused=True)):
            store = self.own(at)
            once_before(store, takes_jobs, forbid)
            assert (await store.exchange((), at.request(lease))).claims == ()
            row = await at.row(job)
            assert (row.state, row.attempt, row.lease) == (State.AVAILABLE, 0, None)

    @story
    async def test_an_idle_worker_writes_nothing_and_one_that_claimed_asks_the_primary(self, at: Scene) -> None:
        lease, store = await at.lease(), self.own(at)
        assert (await store.exchange((), at.request(lease))).claims == ()
        assert await store.held(lease) == ()
        before = self.barriers()
        assert (await store.exchange((), at.request(lease))).claims == ()
        assert await store.held(lease) == ()
        assert await store.next_due(["task"]) is None
        assert self.barriers() == before
        await at.enqueue(at.new())
        assert len((await store.exchange((), at.request(lease))).claims) == 1
        assert len(await store.held(lease)) == 1
        assert self.barriers() > before
        before = self.barriers()
        assert len(await self.own(at).held(lease)) == 1  # what another process has claimed
        assert self.barriers() > before

    @story
    async def test_s3_a_beat_changes_nothing_of_a_lease_that_has_ended(self, at: Scene) -> None:
        lease = await at.lease()
        await at.store.end_lease(lease, CRASH)
        before = self.documents("leases").find_one({"_id": lease})
        at.advance(1.0)
        await at.store.beat([lease])
        assert self.documents("leases").find_one({"_id": lease}) == before

    @story
    async def test_s10_another_result_under_a_spent_token_is_lost(self, at: Scene) -> None:
        active = await at.running()
        assert await at.settle(done(active, b"1")) == (Answer.APPLIED,)
        assert await at.settle(done(active, b"2")) == (Answer.LOST,)
        assert (await at.row(active.id)).result == b"1"

    @story
    async def test_s9_a_lease_for_isolated_attempts_has_one_job(self, at: Scene) -> None:
        await at.enqueue(at.new(), at.new())
        lease = structs.replace(at.new_lease(), is_isolated=True)
        assert await at.store.open_lease(lease)
        assert [len(await at.claim(lease.id)) for _ in range(2)] == [1, 0]

    @story
    async def test_s3_an_older_report_changes_nothing(self, at: Scene) -> None:
        active = await at.running()
        for order, stage in ((2, "second"), (1, "first")):
            await at.store.report([ProgressUpdate(job=active.id, token=active.token, stage=stage, order=order)])
        assert (await at.row(active.id)).stage == "second"

    @story
    async def test_s3_a_report_changes_nothing_of_a_job_that_has_ended_under_its_token(self, at: Scene) -> None:
        active = await at.running()
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        update = ProgressUpdate(job=active.id, token=active.token, stage="half")
        assert await at.store.report([update]) == {active.id}
        assert (await at.row(active.id)).stage is None

    @story
    async def test_an_idle_worker_takes_a_job_while_it_looks(self, at: Scene) -> None:
        store = self.own(at)
        sent, lease = Sent(store), await self.idle(at, store)
        (job,), before = await at.enqueue(at.new()), len(sent.commands)
        (claim,) = (await store.exchange((), at.request(lease))).claims
        assert (claim.job.id, claim.job.state, claim.payload) == (job, State.RUNNING, b"{}")
        verbs = [next(iter(each)) for each in sent.commands[before:]]
        assert sorted(verbs[:2]) == ["aggregate", "findAndModify"]
        assert verbs[2:] == ["aggregate"]

    @story
    async def test_an_idle_worker_takes_all_that_it_has_slots_for(self, at: Scene) -> None:
        store = self.own(at)
        lease, jobs = await self.idle(at, store), await at.enqueue(*(at.new() for _ in range(5)))
        answer = await store.exchange((), at.request(lease, 4))
        assert ([each.job.id for each in answer.claims], answer.is_whole) == ([*jobs[:4]], True)

    @story
    async def test_a_job_that_was_taken_early_goes_back_if_one_of_another_line_comes_first(self, at: Scene) -> None:
        store = self.own(at)
        sent, lease = Sent(store), await self.idle(at, store)
        later, first = await at.enqueue(at.new(), at.new(priority=-5))
        for expected in (first, later):
            assert [each.job.id for each in (await store.exchange((), at.request(lease))).claims] == [expected]
        assert sent.named("findAndModify", "jobs")
        assert (await at.row(later)).attempt == 1

    @story
    async def test_a_job_that_was_taken_early_goes_back_if_its_queue_is_paused(self, at: Scene) -> None:
        store = self.own(at)
        lease, (job,) = await self.idle(at, store), await at.enqueue(at.new())
        await at.store.pause(["default"], is_paused=True)
        assert (await store.exchange((), at.request(lease))).claims == ()
        row = await at.row(job)
        assert (row.state, row.attempt, row.lease) == (State.AVAILABLE, 0, None)

    @story
    async def test_s5_a_job_that_was_taken_early_under_an_ended_lease_goes_back(self, at: Scene) -> None:
        store = self.own(at)
        lease, (job,) = await self.idle(at, store), await at.enqueue(at.new())
        await at.store.end_lease(lease, CRASH)
        assert (await store.exchange((), at.request(lease))).claims == ()
        row = await at.row(job)
        assert (row.state, row.attempt, row.lease) == (State.AVAILABLE, 0, None)

    @story
    async def test_s1_a_job_that_was_taken_early_is_returned_once_with_any_number(self, at: Scene) -> None:
        store = self.own(at)
        lease, jobs = await self.idle(at, store), await at.enqueue(*(at.new() for _ in range(3)))
        self.documents("jobs").update_one({"_id": jobs[0]}, {"$set": {"number": 5000}})  # another process claimed it before
        answer = await store.exchange((), at.request(lease, 2))
        assert ([each.job.id for each in answer.claims], answer.is_whole) == ([*jobs[:2]], True)

    @story
    async def test_a_claim_that_lands_after_its_call_has_failed_is_asked_for_behind_a_barrier(self, at: Scene) -> None:
        store = self.own(at)
        lease, look, late = await self.idle(at, store), store._claiming.look, asyncio.Event()
        await at.settle(*map(done, await store.held(lease)))
        assert await store.held(lease) == ()
        write = store.database.write

        async def wait(command: dict[str, Any], **more: Any) -> dict[str, Any]:
            if "findAndModify" in command:
                await late.wait()
            return await write(command, **more)

        async def fail(now: Any, request: Any) -> Any:
            raise StoreUnavailable("no answer")

        store.database.write, store._claiming.look = wait, fail  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await store.exchange((), at.request(lease))
        store._claiming.look, before = look, self.barriers()  # type: ignore[method-assign]
        assert (await store.held(lease), self.barriers()) == ((), before + 1)
        await at.enqueue(at.new())
        late.set()
        while not store._claiming.may_hold(lease) or store._claiming.acts(lease) % 2:
            await asyncio.wait([asyncio.ensure_future(store.next_due(["task"]))])
        assert (len(await store.held(lease)), self.barriers()) == (1, before + 2)

    async def idle(self, at: Scene, store: MongoStore) -> UUID:
        """Return a lease whose worker has had jobs of one line, and found no more."""
        lease = await at.lease()
        for _ in range(2):
            await at.enqueue(at.new())
            assert len((await store.exchange((), at.request(lease))).claims) == 1
        assert (await store.exchange((), at.request(lease))).claims == ()
        return lease
