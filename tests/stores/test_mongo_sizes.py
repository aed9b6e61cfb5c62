"""Large payloads: transactions that the cache of a server, or its limit for documents, cannot hold."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import State
from holdfast.errors import StoreRefused
from holdfast.testing.contracts.scene import Scene, done, play
from holdfast.testing.servers import MongoSet
from tests.stores.test_mongo_failover import LONG, Site, migrate

JOBS, SIZE = 1000, 256 * 1024
PAYLOAD = b'"%s"' % (b"x" * (SIZE - 2))
A_CALL = 50
"""Jobs of one call: 12.5 MB, more than one command holds. The log of a transaction takes as much of the cache."""


@pytest.fixture(scope="module")
def servers() -> Iterator[MongoSet]:
    with MongoSet(settings={"storage.wiredTiger.engineConfig.cacheSizeGB": 0.25}) as servers:
        yield servers


@pytest.fixture
def site(servers: MongoSet) -> Site:
    site = Site(servers)
    play(site, migrate)
    return site


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_a_thousand_of_the_largest_jobs_pass_through_a_small_cache(site: Site) -> None:
    async def act(at: Scene) -> None:
        for _ in range(JOBS // A_CALL):
            call, jobs = at.chance.uuid4(), [at.new(payload=PAYLOAD) for _ in range(A_CALL)]
            assert await at.store.enqueue(call, jobs) == EnqueueAnswer()
            assert await at.store.enqueue(call, jobs) == EnqueueAnswer()
        lease = await at.lease(ttl=LONG)
        number = 0
        while claims := await at.claim(lease, A_CALL):
            assert all(each.payload == PAYLOAD for each in claims)
            assert await at.settle(*(done(each.job, PAYLOAD) for each in claims)) == (Answer.APPLIED,) * len(claims)
            number += len(claims)
        assert number == JOBS
        assert await at.store.counts() == {("", State.COMPLETED): JOBS}

    play(site, act)


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_a_large_call_does_not_stop_small_ones(site: Site) -> None:
    async def act(at: Scene) -> None:
        large = [at.new(payload=PAYLOAD, queue="large") for _ in range(A_CALL)]
        writing = asyncio.ensure_future(at.send(*large))
        small = [job for _ in range(20) for job in await at.enqueue(at.new(queue="small"))]
        assert await writing == EnqueueAnswer()
        claims = await at.claim(await at.lease(ttl=LONG), len(small), queues=("small",))
        assert sorted(each.job.id for each in claims) == sorted(small)
        assert await at.settle(*(done(each.job) for each in claims)) == (Answer.APPLIED,) * len(claims)

    play(site, act)


@pytest.mark.prove
def test_a_call_that_the_cache_cannot_hold_is_refused_by_name_and_stores_nothing(site: Site) -> None:
    async def act(at: Scene) -> None:
        call, jobs = at.chance.uuid4(), [at.new(payload=PAYLOAD) for _ in range(3 * A_CALL)]
        for _ in range(2):
            with pytest.raises(StoreRefused, match="write fewer jobs in one call, or give the server a larger cache"):
                await at.store.enqueue(call, jobs)
        assert await at.store.counts() == {}
        await at.enqueue(at.new())

    play(site, act)
