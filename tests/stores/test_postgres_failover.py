"""The PostgreSQL store when a stand-by takes over that has not received every commit."""

from collections.abc import Iterator

import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast.errors import StoreUnavailable
from holdfast.testing.contracts.scene import Scene, done, play
from holdfast.testing.servers import PostgresServer
from tests.e2e.waiting import STALL, until
from tests.stores.postgres_faulty_databases import Site, in_the_end, migrate

CRASH = LeaseEnd(RescueReason.CRASHED)


class Pair:
    """A primary, a stand-by, and a store that uses the one that accepts writes."""

    def __init__(self, primary: PostgresServer, follower: PostgresServer, database: str) -> None:
        self.primary, self.follower = primary, follower
        self.site = Site(f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{follower.port}/{database}")
        self.database = database

    def part(self) -> None:
        """Wait until the stand-by has received everything, then cut it off."""
        (last,) = self.primary.sql("SELECT pg_current_wal_lsn()").splitlines()
        seen = f"SELECT pg_last_wal_replay_lsn() >= '{last}'"
        until(lambda: self.follower.sql(seen) == "t", within=STALL)
        self.follower.sql("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        until(lambda: self.follower.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0", within=STALL)

    def fail_over(self) -> None:
        """End the primary, and promote the stand-by."""
        self.primary.kill()
        self.follower.promote()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with PostgresServer() as primary:
        dsn = primary.create_database()
        migrate(dsn)
        with primary.replicate() as follower:
            yield Pair(primary, follower, dsn.rpartition("/")[2])


def test_no_token_of_a_lost_claim_is_used_again(pair: Pair) -> None:
    """S2: the same worker may claim the same job under the same number, but never by the same claim id."""

    async def act(at: Scene) -> None:
        first, second = await at.enqueue(at.new(), at.new())
        lease = await at.lease(ttl=600.0)
        pair.part()
        forgotten = [claim.job for claim in await at.claim(lease, 2)]
        call, job = at.chance.uuid4(), at.new(queue="late")
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        pair.fail_over()

        assert await in_the_end(lambda: at.settle(*map(done, forgotten))) == (Answer.LOST, Answer.LOST)
        assert await at.store.held(lease) == ()
        known = [claim.job for claim in await at.claim(lease, 2)]
        assert {active.id for active in known} == {first, second}
        assert not {active.token for active in known} & {active.token for active in forgotten}
        assert await at.settle(*map(done, forgotten)) == (Answer.LOST, Answer.LOST)
        assert await at.store.start([(active.id, active.token) for active in forgotten]) == {first, second}
        assert await at.settle(*map(done, known)) == (Answer.APPLIED, Answer.APPLIED)
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert await at.state(job.id) is State.AVAILABLE

    play(pair.site, act)


def test_after_a_failover_a_lost_lease_is_gone_and_a_replicated_one_stays(pair: Pair) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        pair.part()
        lost = await at.lease(ttl=600.0)
        await at.store.beat([active.lease])
        pair.fail_over()

        beat = await in_the_end(lambda: at.store.beat([active.lease, lost]))
        assert (beat.alive, beat.gone) == ({active.lease}, {lost})
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(pair.site, act)


def test_an_outcome_that_was_lost_can_be_settled_again(pair: Pair) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        pair.part()
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        await at.store.end_lease(active.lease, CRASH)
        pair.fail_over()

        assert await in_the_end(lambda: at.state(active.id)) is State.RUNNING
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        assert await at.store.end_lease(active.lease, CRASH) == CRASH

    play(pair.site, act)


def test_a_stand_by_does_not_serve_a_store_until_it_is_promoted(pair: Pair) -> None:
    async def act(at: Scene) -> None:
        pair.primary.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await at.store.counts()
        pair.follower.promote()
        assert await in_the_end(at.store.counts) == {}

    play(pair.site, act)
    rest = Site(pair.follower.dsn(pair.database))
    play(rest, act_on_one)


async def act_on_one(at: Scene) -> None:
    """Settle a job on the server that is left."""
    active = await at.running()
    assert await at.settle(done(active)) == (Answer.APPLIED,)


def test_a_stand_by_without_a_primary_reports_that_it_is_read_only(pair: Pair) -> None:
    async def act(at: Scene) -> None:
        with pytest.raises(StoreUnavailable, match="read-only"):
            await at.store.counts()
        pair.fail_over()
        assert await in_the_end(at.store.counts) == {}

    play(Site(pair.follower.dsn(pair.database)), act)
