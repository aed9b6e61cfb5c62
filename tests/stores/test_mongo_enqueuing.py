"""An enqueue on MongoDB that is one insert leaves what a transaction would leave, also when the clock or the settings change."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.job import NewJob, State
from holdfast._core.policy import Backoff, Policy
from holdfast._core.requests import JobFilter, QueueSettings
from holdfast._core.uniqueness import Uniqueness
from holdfast._system.clock import loop_sleep
from holdfast.databases.mongo.database import CODEC
from holdfast.errors import HoldfastError, StoreUnavailable, Unsupported
from holdfast.stores.mongo import primary
from holdfast.stores.mongo.primary import ANNOUNCED, KEPT, Shown
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.servers import MongoSet
from tests.stores.mongo_homes import MongoHome

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
POLICY = Policy(max_attempts=7, backoff=Backoff.fixed("1s"), timeout=9.0, retention=60.0)
VARIED: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"unique_key": "one\0two"},
    "delayed": {"delay": 2.5},
    "brought forward": {"delay": -2.5},
    "timed": {"run_at": START, "delay": 3.0},
    "expiring": {"expires_in": 30.0},
    "delayed and expiring": {"delay": 0.0015, "expires_in": 0.0025},
    "in a lane": {"key": "acme\0", "queue": "urgent", "priority": 4},
    "described": {"tags": ("a", "b"), "headers": (("k", "v"),), "policy": POLICY},
    "binary": {"payload": b"\xff\x00"},
}


class At:
    """Two stores of one home, whose clock follows a test's."""

    def __init__(self, home: MongoHome) -> None:
        self.home, self.clock, self.chance = home, FakeClock(), FakeChance()
        self.store: Any = home.store(self.clock)
        self.other: Any = home.store(self.clock)

    @property
    def jobs(self) -> Any:
        """The collection of the jobs."""
        return self.home._database.get_collection("holdfast.jobs", codec_options=CODEC)

    @property
    def now(self) -> datetime:
        """The time of the set."""
        return self.home.clock.now

    def new(self, **values: Any) -> NewJob:
        """Make a job to be enqueued."""
        return NewJob(**{"id": self.chance.uuid7(), "payload": b"{}", "task": "task", "policy": Policy()} | values)

    def run(self, act: Coroutine[Any, Any, Any]) -> Any:
        """Return what a coroutine of a store returns."""
        return self.home.run(act)

    def enqueue(self, *jobs: NewJob, call: UUID | None = None) -> Any:
        """Enqueue by the first store."""
        return self.run(self.store.enqueue(call or self.chance.uuid4(), jobs))

    def document(self, job: NewJob) -> dict[str, Any]:
        """Return what is written of a job."""
        found: dict[str, Any] = self.jobs.find_one({"_id": job.id})
        return found


@pytest.fixture
def at(mongo_home: MongoHome) -> At:
    return At(mongo_home)


def in_a_transaction(at: At, call: UUID, jobs: Sequence[NewJob]) -> None:
    """Enqueue as the verb of a book."""
    at.run(at.store._ask("enqueue", (call, jobs), {"under": None}))


@pytest.mark.parametrize("way", ["alone", "with others"])
def test_the_documents_of_an_insert_are_those_of_a_transaction(at: At, way: str) -> None:
    at.run(at.store.set_queue("urgent", QueueSettings(priority=-10)))
    every = {name: at.new(**values) for name, values in VARIED.items() if way == "alone" or name != "keyed"}
    calls = [[each] for each in every.values()] if way == "alone" else [[*every.values()]]
    left = list[list[dict[str, Any]]]()
    for act in (in_a_transaction, lambda at, call, jobs: at.enqueue(*jobs, call=call)):
        for number, jobs in enumerate(calls):
            act(at, UUID(int=number), jobs)
        left.append([*at.jobs.find({}, {"call": 0} if way != "alone" else None).sort("_id")])
        at.jobs.delete_many({})
    for one, other in zip(*left, strict=True):
        assert [*one.items()] == [*other.items()]
    assert len(left[0]) == len(every)


def test_a_job_is_one_insert_without_a_transaction_and_a_second_one_reads_nothing_first(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, command, find = list[tuple[str, bool]](), at.store.database.command, at.store.database.find

    async def noted(asked: dict[str, Any], **options: Any) -> Any:
        sent.append((next(iter(asked)), options.get("session") is not None))
        return await command(asked, **options)

    async def found(*asked: Any, **options: Any) -> Any:
        sent.append(("find", options.get("session") is not None))
        return await find(*asked, **options)

    monkeypatch.setattr(at.store.database, "command", noted)
    monkeypatch.setattr(at.store.database, "find", found)
    at.enqueue(at.new())
    sent.clear()
    at.enqueue(at.new(unique_key="key"))
    assert sorted(sent) == [("find", False), ("insert", False)]
    sent.clear()
    at.store.primary.current = 0.1
    at.enqueue(at.new())
    assert sent == [("insert", False)]
    sent.clear()
    at.clock.advance(0.125)
    at.enqueue(at.new())
    assert sorted(sent) == [("find", False), ("insert", False)]


def test_s10_two_copies_of_a_call_at_once_are_one_job_and_get_one_answer(at: At) -> None:
    async def copies(call: UUID, job: NewJob) -> list[EnqueueAnswer]:
        return await asyncio.gather(*(store.enqueue(call, [job]) for store in (at.store, at.other) * 4))

    for key in (None, "key"):
        call, job = at.chance.uuid4(), at.new(unique_key=key)
        assert at.run(copies(call, job)) == [EnqueueAnswer()] * 8
        assert at.run(at.store.delete([job.id])) == {}
        assert at.run(copies(call, job)) == [EnqueueAnswer()] * 8
        assert at.run(at.store.counts()) == {}


def test_s11_calls_at_once_with_one_key_are_one_job_that_the_others_name(at: At) -> None:
    jobs = [at.new(unique_key="key", payload=b"1") for _ in range(5)] + [at.new(unique_key="key", payload=b"2")]

    async def rivals() -> list[EnqueueAnswer]:
        return await asyncio.gather(
            *(store.enqueue(job.id, [job]) for job, store in zip(jobs, (at.store, at.other) * 3, strict=True))
        )

    answers = at.run(rivals())
    holder = next(job for job, answer in zip(jobs, answers, strict=True) if answer == EnqueueAnswer())
    for job, answer in zip(jobs, answers, strict=True):
        is_same = job.payload == holder.payload
        assert answer == EnqueueAnswer({} if job is holder else {job.id: Duplicate(holder.id, is_same)})
    assert at.run(at.store.delete([holder.id])) == {}
    for job, answer in zip(jobs, answers, strict=True):  # a late copy gets its answer again, and inserts nothing
        assert at.enqueue(job, call=job.id) == answer
    assert at.run(at.store.counts()) == {}


def test_a_key_that_the_next_claim_frees_is_refused_in_a_transaction_of_the_caller(at: At) -> None:
    job = at.new(unique_key="k", uniqueness=Uniqueness(until_started=True))
    with pytest.raises(Unsupported, match="enqueue after your commit"):
        at.store.enqueue_within(object(), at.chance.uuid4(), [job])
    assert at.jobs.count_documents({}) == 0


def test_an_id_that_exists_is_refused_and_leaves_no_receipt(at: At) -> None:
    job, call = at.new(), at.chance.uuid4()
    at.enqueue(job)
    with pytest.raises(HoldfastError, match="a job of that id exists already"):
        at.enqueue(job, call=call)
    other = at.new()
    assert at.enqueue(other, call=call) == EnqueueAnswer()
    assert at.document(other)["call"] == call


def test_s15_a_job_whose_answer_was_lost_is_there_once_after_the_copy(at: At, mongo_set: MongoSet) -> None:
    for key in (None, "key"):
        call, job = at.chance.uuid4(), at.new(unique_key=key)
        lost = {"failCommands": ["insert"], "writeConcernError": {"code": 64, "errmsg": "lost"}}
        mongo_set.primary().set_fail_point("failCommand", {"times": 1}, lost)
        with pytest.raises(StoreUnavailable):
            at.enqueue(job, call=call)
        assert at.document(job)["call"] == call
        assert at.enqueue(job, call=call) == EnqueueAnswer()
    assert at.run(at.store.counts()) == {("", State.AVAILABLE): 2}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("step", [-3600.0, -0.002, 0.002, 3600.0])
def test_a_clock_that_was_set_is_noticed_by_the_enqueue_itself(at: At, number: int, step: float) -> None:
    at.enqueue(at.new())
    at.home.clock.advance(step)
    jobs = [at.new(delay=5.0, expires_in=10.0), *(at.new() for _ in range(number - 1))]
    plain = at.new()
    at.enqueue(*jobs)
    at.enqueue(plain)
    found, after = at.document(jobs[0]), timedelta(seconds=5)
    assert (found["created_at"], found["available_at"] - after, found["expires_at"] - 2 * after) == (at.now,) * 3
    assert found["expiring"] == found["expires_at"]
    assert at.document(plain)["available_at"] == at.now


@pytest.mark.parametrize("number", [1, 3])
def test_a_priority_that_another_process_gave_to_a_queue_counts_for_the_next_job(at: At, number: int) -> None:
    at.enqueue(at.new())
    for priority in (-10, 5, 0):
        at.run(at.other.set_queue("default", QueueSettings(priority=priority)))
        jobs = [at.new(priority=1) for _ in range(number)]
        at.enqueue(*jobs)
        left = [at.document(each) for each in jobs]
        for each in jobs:
            at.jobs.delete_one({"_id": each.id})
        in_a_transaction(at, at.chance.uuid4(), jobs)
        wanted = [at.document(each) for each in jobs]
        assert [each["priority"] for each in left] == [priority + 1] * number
        assert [{**each, "call": 0} for each in left] == [{**each, "call": 0} for each in wanted] or number > 1


def test_a_priority_counts_once_it_is_set_also_for_a_process_that_has_just_read_another(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    at.store.primary.current = at.other.primary.current = 0.1

    async def passed(seconds: float) -> None:
        await at.store.enqueue(at.chance.uuid4(), [at.new()])
        at.clock.advance(seconds)
        await at.store.enqueue(at.chance.uuid4(), [at.new()])

    monkeypatch.setattr(primary, "loop_sleep", passed)
    for priority in (-10, 3):
        at.enqueue(at.new())
        at.run(at.other.set_queue("default", QueueSettings(priority=priority)))
        job = at.new()
        at.enqueue(job)
        assert at.jobs.distinct("priority") == [priority]


def test_only_a_change_of_the_priority_is_announced(at: At) -> None:
    async def is_changing() -> bool:
        shown = await at.store.primary.read()
        return bool(shown.is_changing)

    for settings, is_announced in ((QueueSettings(weight=2), False), (QueueSettings(weight=3, priority=1), True), (None, True)):
        at.run(at.other.set_queue("default", settings))
        assert at.run(is_changing()) is is_announced
        at.clock.advance(ANNOUNCED)
        assert not at.run(is_changing())


def test_a_job_that_was_touched_before_its_correction_is_left_as_it_is(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    at.enqueue(at.new())
    job, write = at.new(), at.store.database.write

    async def cancelled(command: dict[str, Any], **options: Any) -> Any:
        if "update" in command:
            await at.other.request_cancel([job.id])
        return await write(command, **options)

    at.home.clock.advance(60.0)
    monkeypatch.setattr(at.store.database, "write", cancelled)
    at.enqueue(job)
    assert (at.document(job)["state"], at.document(job)["available_at"]) == ("cancelled", at.now - timedelta(seconds=60))


def test_what_was_read_is_used_for_ten_seconds_and_not_after_an_election(at: At) -> None:
    first = at.run(at.store.primary.recent())
    at.clock.advance(KEPT)
    assert at.run(at.store.primary.recent()) is first
    at.clock.advance(0.001)
    second = at.run(at.store.primary.recent())
    assert second is not first
    at.store.database.term += 1
    assert at.run(at.store.primary.recent()) is not second


def test_an_insert_that_a_later_primary_answered_waits_for_a_read_of_it(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    at.enqueue(at.new())
    job, write = at.new(), at.store.database.write

    async def elected(command: dict[str, Any], **options: Any) -> Any:
        answer = await write(command, **options)
        if "insert" in command:
            await at.store.primary.read()  # so that the one beside the insert has been answered by the earlier primary
            at.home.clock.advance(-3600.0)
            at.store.database.term += 1
        return answer

    monkeypatch.setattr(at.store.database, "write", elected)
    at.enqueue(job)
    assert at.document(job)["available_at"] == at.now


def test_the_time_of_the_primary_lies_between_the_bounds_while_the_clocks_drift() -> None:
    shown = Shown(START, sent=100.0, received=100.25, term=1, queues={}, drift=0.001)
    for rate in (0.999, 1.0, 1.001):
        for read_at in (100.0, 100.125, 100.25):
            for when in (95.0, 100.25, 100.3, 110.0):
                time = shown.time(when)
                true = START + timedelta(seconds=(when - read_at) * rate)
                assert time.earliest <= true <= time.latest
    assert shown.time(110.0).latest - shown.time(110.0).earliest <= timedelta(seconds=0.25 + 0.022)


def test_jobs_of_one_process_are_stamped_in_their_order_although_a_later_read_is_less_sharp(at: At) -> None:
    stamp = at.store.primary.stamp
    sharp = Shown(START, sent=1000.0, received=1000.0, term=1, queues={}, drift=0.001)
    at.clock.advance(1.0)
    first = stamp(sharp)
    vague = Shown(START + timedelta(seconds=1), sent=1000.9, received=1001.2, term=1, queues={}, drift=0.001)
    assert stamp(vague).earliest == first.earliest
    back = Shown(START - timedelta(hours=1), sent=1001.0, received=1001.0, term=1, queues={}, drift=0.001)
    assert stamp(back).earliest == START - timedelta(hours=1)


def test_many_calls_at_once_share_reads_that_begin_after_them(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[int]()
    ask = at.store.primary._ask

    async def counted() -> Any:
        begun.append(1)
        return await ask()

    monkeypatch.setattr(at.store.primary, "_ask", counted)

    async def many() -> None:
        await at.store.enqueue(at.chance.uuid4(), [at.new()])  # the term of the primary is known after it
        begun.clear()
        await asyncio.gather(*(at.store.enqueue(at.chance.uuid4(), [at.new()]) for _ in range(20)))

    at.run(many())
    assert 1 <= len(begun) <= 3
    assert len(at.run(at.store.list(JobFilter()))) == 21


def test_a_caller_who_gives_up_does_not_end_the_read_of_the_others(at: At) -> None:
    async def story(store: MongoStore) -> None:
        one, other = (asyncio.ensure_future(store.primary.recent()) for _ in range(2))
        await loop_sleep(0)
        one.cancel()
        assert isinstance(await other, Shown)
        assert one.cancelled()

    at.run(story(at.store))
