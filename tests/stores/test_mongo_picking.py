"""A claim on MongoDB takes what the memory store would take, and reads little more than that."""

import random
from typing import Any

import pytest
from msgspec import structs

from holdfast._core.job import NewJob, State
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimRequest, NewLease, QueueSettings
from holdfast._core.timing import LeaseTiming
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.stores.mongo_homes import MongoHome

TASKS = {"one": Policy(), "two": Policy()}


class Pair:
    """A store on MongoDB and one in memory, with the same jobs, and a lease in both."""

    def __init__(self, home: MongoHome) -> None:
        self.home, self.chance, self.clock = home, FakeChance(), FakeClock()
        self.mongo: Any = home.store(self.clock)
        self.stores: tuple[Any, Any] = self.mongo, MemoryStore(self.clock)
        self.lease = NewLease(self.chance.uuid4(), "worker", PROCESS, LeaseTiming.of(30.0), ("default",), tuple(TASKS))
        self.both("open_lease", self.lease)

    def both(self, verb: str, *arguments: Any) -> list[Any]:
        """Return the answers of both stores."""
        return [self.home.run(getattr(store, verb)(*arguments)) for store in self.stores]

    def fill(self, numbers: dict[tuple[str, str, int], int], task: str = "one") -> None:
        """Enqueue as many jobs in each lane, which is a queue, a key and a priority."""
        jobs = [
            NewJob(id=self.chance.uuid7(), payload=b"{}", task=task, policy=Policy(), queue=queue, key=key, priority=priority)
            for (queue, key, priority), number in numbers.items()
            for _ in range(number)
        ]
        if jobs:
            self.both("enqueue", self.chance.uuid4(), jobs)

    def compare(self, limit: int, prefetch: int) -> None:
        """Claim ten times: both stores take the same jobs."""
        cursor: Any = ()
        for _ in range(10):
            request = ClaimRequest(
                lease=self.lease.id, claim=self.chance.uuid4(), tasks=TASKS, limit=limit, prefetch=prefetch, cursor=cursor
            )
            ours, theirs = self.both("exchange", (), request)
            assert [(each.job.id, each.job.state) for each in ours.claims] == [
                (each.job.id, each.job.state) for each in theirs.claims
            ]
            assert ours.cursor == theirs.cursor
            cursor = ours.cursor


@pytest.fixture
def pair(mongo_home: MongoHome) -> Pair:
    return Pair(mongo_home)


@pytest.mark.parametrize("seed", range(5))
def test_a_claim_takes_what_the_memory_store_would_take(pair: Pair, seed: int) -> None:
    dice = random.Random(seed)
    for queue in ("a", "b"):
        weights = {str(key): dice.choice((1, 2, 5)) for key in range(3)}
        pair.both("set_queue", queue, QueueSettings(weight=dice.choice((1, 1, 3)), key_weights=weights))
    for task in TASKS:
        keys = range(dice.choice((1, 3, 12, 40)))
        lanes = [(queue, str(key), priority) for queue in ("a", "b") for key in keys for priority in (0, 1)]
        pair.fill({lane: dice.choice((0, 0, 1, 3, 9, 40)) for lane in lanes if dice.random() < 0.5}, task)
    pair.compare(limit=dice.choice((1, 7, 40)), prefetch=dice.choice((0, 3, 30)))


def test_of_many_deep_lanes_a_claim_reads_few_jobs_of_each(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.fill({("default", str(key), 0): 40 for key in range(20)})
    read, find = list[int](), pair.mongo.database.find

    async def counted(name: str, *arguments: Any, **options: Any) -> Any:
        found = await find(name, *arguments, **options)
        if name == pair.mongo.names.jobs:
            read.append(len(found))
        return found

    monkeypatch.setattr(pair.mongo.database, "find", counted)
    request = ClaimRequest(lease=pair.lease.id, claim=pair.chance.uuid4(), tasks=TASKS, limit=32)
    answers = pair.both("exchange", (), request)
    assert len(answers[0].claims) == 32
    assert sum(read) <= 2 * 32
    read.clear()
    assert len(pair.home.run(pair.mongo.exchange((), structs.replace(request, claim=pair.chance.uuid4(), limit=1))).claims) == 1
    assert sum(read) <= 16


class Rivals:
    """A claim between whose pick and write another lease takes some of the picked jobs."""

    def __init__(self, pair: Pair, monkeypatch: pytest.MonkeyPatch, stolen: int) -> None:
        self.pair, self.stolen = pair, stolen
        self.rival = structs.replace(pair.lease, id=pair.chance.uuid4())
        pair.home.run(pair.mongo.open_lease(self.rival))
        claiming = pair.mongo._claiming
        take = claiming._take

        async def late(now: Any, lease: NewLease, request: ClaimRequest, picked: Any, base: int) -> None:
            stolen, self.stolen = self.stolen, 0
            if stolen:
                some = structs.replace(picked, running=picked.running[:stolen], claimed=())
                theirs = structs.replace(request, lease=self.rival.id, claim=pair.chance.uuid4())
                await take(now, self.rival, theirs, some, base)
            await take(now, lease, request, picked, base)

        monkeypatch.setattr(claiming, "_take", late)

    def claim(self, limit: int) -> Any:
        """Return the answer of a claim."""
        request = ClaimRequest(lease=self.pair.lease.id, claim=self.pair.chance.uuid4(), tasks=TASKS, limit=limit)
        return self.pair.home.run(self.pair.mongo.exchange((), request))


def test_a_claim_returns_what_others_left_and_reports_that_there_may_be_more(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.fill({("default", "", 0): 10})
    answer = Rivals(pair, monkeypatch, stolen=2).claim(5)
    assert (len(answer.claims), answer.is_whole) == (3, False)


def test_a_claim_of_which_others_took_everything_tries_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.fill({("default", "", 0): 10})
    answer = Rivals(pair, monkeypatch, stolen=5).claim(5)
    assert (len(answer.claims), answer.is_whole) == (5, True)


@pytest.mark.parametrize("number", [3, 5, 9, 30, 200])
def test_a_claim_beside_others_takes_as_many_from_any_place(pair: Pair, number: int) -> None:
    pair.fill({("default", "", 0): number})
    pair.mongo._claiming._reach = 8
    request = ClaimRequest(lease=pair.lease.id, claim=pair.chance.uuid4(), tasks=TASKS, limit=3, prefetch=2)
    answer = pair.home.run(pair.mongo.exchange((), request))
    assert (len(answer.claims), answer.is_whole) == (min(number, 5), True)


def test_a_claim_looks_nearer_only_after_as_many_claims_as_it_looks_far(pair: Pair) -> None:
    claiming, seen = pair.mongo._claiming, list[int]()
    for is_whole in (False, False, False, False, *[True] * 17):
        claiming._adapt(is_whole)
        seen.append(claiming._reach)
    assert seen == [2, 4, 8, 8, *[8] * 8, *[4] * 5, *[2] * 3, 1]


def test_the_job_of_an_expired_offer_is_not_among_the_first_that_a_claim_reads(pair: Pair) -> None:
    pair.fill({("default", "", 0): 3})
    late = NewJob(id=pair.chance.uuid7(), payload=b"{}", task="one", policy=Policy(), expires_in=5.0)
    pair.both("enqueue", pair.chance.uuid4(), [late])
    pair.compare(limit=1, prefetch=0)
    pair.clock.advance(6.0)
    pair.compare(limit=9, prefetch=0)


def test_numbers_that_were_kept_are_below_those_of_jobs_that_are_claimed_ahead(pair: Pair) -> None:
    pair.fill({("default", "", 0): 20})
    numbers = list[int]()
    for limit, prefetch in ((2, 0), (0, 3), (2, 0), (1, 2), (0, 4)):
        request = ClaimRequest(lease=pair.lease.id, claim=pair.chance.uuid4(), tasks=TASKS, limit=limit, prefetch=prefetch)
        claims = pair.home.run(pair.mongo.exchange((), request)).claims
        numbers += [each.job.token.number for each in claims if each.job.state is State.CLAIMED]
    assert numbers == sorted({*numbers})
    assert len(numbers) == 9
