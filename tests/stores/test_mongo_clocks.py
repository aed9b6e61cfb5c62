"""The MongoDB store when the clock of a new primary is wrong by minutes or hours."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast._core.answers import Answer
from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._system.clock import SystemClock
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.contracts.scene import Scene, done, play, rescued
from tests.e2e.waiting import STALL
from tests.servers.skewed_mongo import SkewedSet
from tests.stores.postgres_faulty_databases import in_the_end
from tests.stores.test_mongo_failover import ELECTION, LONG, Site, migrate

CRASH = LeaseEnd(RescueReason.CRASHED)
TTL, INTERVAL = 4.0, 0.2


@pytest.fixture(params=[3600, -3600, 300, -300], scope="module")
def skew(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def servers(skew: int) -> Iterator[SkewedSet]:
    with SkewedSet(0, skew, 0) as servers:
        yield servers


@pytest.fixture
def site(servers: SkewedSet) -> Site:
    servers.elect(servers.members[0], within=ELECTION)
    site = Site(servers)
    play(site, migrate)
    return site


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_s5_l1_after_an_election_no_lease_is_judged_early_and_the_dead_are_found(site: Site, servers: SkewedSet) -> None:
    clock = SystemClock()

    async def act(at: Scene) -> None:
        supervisor = at.another()
        alive, dead = await at.lease(ttl=TTL), await at.lease(ttl=TTL)
        await at.enqueue(at.new())
        (claim,) = await at.claim(dead)
        assert await supervisor.expired(9) == ()
        await at.store.beat([alive, dead])
        begun = clock.monotonic()
        await asyncio.to_thread(servers.elect, servers.members[1], within=ELECTION)
        assert await in_the_end(lambda: supervisor.expired(9)) == () or clock.monotonic() - begun > TTL
        found = None
        while found is None:
            assert (await in_the_end(lambda: at.store.beat([alive]))).alive == {alive}
            expired = await in_the_end(lambda: supervisor.expired(9))
            assert alive not in {each.id for each in expired}
            found = next((each for each in expired if each.id == dead), None)
            assert clock.monotonic() - begun < 2 * TTL + INTERVAL + 2 * STALL
            await clock.sleep(INTERVAL)
        assert clock.monotonic() - begun >= TTL
        assert await supervisor.end_lease(dead, CRASH, seen=found.seen) == CRASH
        assert await supervisor.end_lease(alive, CRASH, seen="other") is None
        assert (await supervisor.exchange([rescued(claim.job, CRASH)])).answers == (Answer.APPLIED,)
        assert await at.store.held(dead) == ()

    play(site, act)


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_s5_a_supervisor_that_has_written_nothing_since_an_election_ends_no_lease(site: Site, servers: SkewedSet) -> None:
    async def act(at: Scene) -> None:
        supervisor = at.another()
        alive = await at.lease(ttl=LONG)
        assert isinstance(supervisor, MongoStore)
        await supervisor.beat([alive])
        (view,) = [each for each in await supervisor.workers() if each.id == alive]
        await asyncio.to_thread(servers.elect, servers.members[1], within=ELECTION)
        assert await in_the_end(lambda: supervisor.expired(9)) == ()
        other = at.another()
        assert isinstance(other, MongoStore)
        other.database.term = 0  # it knows no later one
        assert await in_the_end(lambda: other.end_lease(alive, CRASH, seen=view.seen)) is None
        assert (await at.store.beat([alive])).alive == {alive}

    play(site, act)


@pytest.mark.prove
@pytest.mark.timeout(180)
def test_after_an_election_due_times_move_by_the_difference(site: Site, servers: SkewedSet, skew: int) -> None:
    async def act(at: Scene) -> None:
        await at.enqueue(at.new(delay=7200.0))
        before = await at.store.next_due(["task"])
        assert before is not None
        await asyncio.to_thread(servers.elect, servers.members[1], within=ELECTION)
        after = await in_the_end(lambda: at.store.next_due(["task"]))
        assert after is not None
        assert abs(before - after - skew) < 4 * STALL
        assert [each.level for each in await in_the_end(at.store.check) if each.name == "clock"] == ["warning"]
        lease = await at.lease(ttl=LONG)
        (now,) = await at.enqueue(at.new(queue="now"))
        (claim,) = await at.claim(lease)
        assert claim.job.id == now
        assert await at.settle(done(claim.job)) == (Answer.APPLIED,)

    play(site, act)
