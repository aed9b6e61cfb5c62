"""The PostgreSQL store while its server is restarted, killed, cut short at a commit, read-only, or out of connections."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import State
from holdfast.errors import StoreUnavailable
from holdfast.testing.contracts.scene import Scene, done, play, raised
from holdfast.testing.servers import PostgresServer
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_faulty_databases import Ground, Site, in_the_end

MINE = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'holdfast %'"


@pytest.fixture
def server(breakable: Ground) -> PostgresServer:
    return breakable.server


@pytest.fixture
def site(breakable: Ground) -> Site:
    return Site(breakable.database())


@pytest.fixture(params=["fast", "immediate", "kill -9"])
def interrupt(request: pytest.FixtureRequest, server: PostgresServer) -> Callable[[], None]:
    """Return one of three ways to end the server."""
    return server.kill if request.param == "kill -9" else lambda: server.stop(request.param)


def test_acknowledged_writes_survive_a_restart(site: Site, server: PostgresServer, interrupt: Callable[[], None]) -> None:
    async def act(at: Scene) -> None:
        (waiting,) = await at.enqueue(at.new(queue="waiting"))
        good, bad, prefetched = await at.running(), await at.running(), await at.prefetched()
        assert await at.settle(raised(bad)) == (Answer.APPLIED,)
        interrupt()
        with pytest.raises(StoreUnavailable):
            await at.store.counts()
        server.start()
        assert await in_the_end(lambda: at.state(waiting)) is State.AVAILABLE
        assert await at.settle(raised(bad)) == (Answer.APPLIED,)
        assert [active.token for active in await at.store.held(good.lease)] == [good.token]
        assert (await at.store.beat([good.lease])).alive == {good.lease}
        assert not await at.store.start([(prefetched.id, prefetched.token)])
        assert await at.settle(done(good), done(prefetched)) == (Answer.APPLIED, Answer.APPLIED)
        (claim,) = await at.claim(good.lease, queues=("waiting",))
        assert claim.job.token.number > max(active.token.number for active in (good, bad, prefetched))

    play(site, act)


def test_work_continues_while_a_server_stops_and_starts(
    site: Site, server: PostgresServer, interrupt: Callable[[], None]
) -> None:
    """No acknowledged write is lost, no verb takes effect twice, and no claim number is reused."""

    async def act(at: Scene) -> None:
        acknowledged, settled, numbers = set(), set(), list[int]()
        is_over = False

        async def enqueue() -> None:
            while not is_over:
                call, job = at.chance.uuid4(), at.new()
                await in_the_end(lambda: at.store.enqueue(call, [job]))  # noqa: B023
                acknowledged.add(job.id)

        async def work() -> None:
            lease = await at.lease(ttl=600.0)
            while not is_over or acknowledged - settled:
                request = at.request(lease, 3)
                await in_the_end(lambda: at.store.exchange([], request))  # noqa: B023
                held = await in_the_end(lambda: at.store.held(lease))
                assert isinstance(held, tuple)
                numbers.extend(active.token.number for active in held)
                answer = await in_the_end(lambda: at.settle(*map(done, held)))  # noqa: B023
                assert answer == (Answer.APPLIED,) * len(held)
                settled.update(active.id for active in held)

        working = [asyncio.ensure_future(each()) for each in (enqueue, enqueue, work, work)]
        for _ in range(3):
            known = len(settled)
            await eventually(lambda: len(settled) > known + 20, within=4 * STALL)  # noqa: B023
            interrupt()
            server.start()
        is_over = True
        await asyncio.gather(*working)
        assert acknowledged == settled
        assert len(numbers) == len(set(numbers))
        assert await at.store.counts() == {("", State.COMPLETED): len(acknowledged)}

    play(site, act)


def test_a_killed_backend_ends_all_backends_for_a_moment(site: Site, server: PostgresServer) -> None:
    """The postmaster ends all backends, because the killed one may have left shared memory in disorder."""

    async def act(at: Scene) -> None:
        active = await at.running()
        (pid, *_) = server.sql(MINE).splitlines()
        server.kill_backend(int(pid))
        await in_the_end(lambda: at.settle(done(active)))
        assert await at.settle(done(active)) == (Answer.APPLIED,)
        assert await at.state(active.id) is State.COMPLETED

    play(site, act)


def test_a_terminated_backend_costs_at_most_one_answer(site: Site, server: PostgresServer) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        server.sql(f"SELECT pg_terminate_backend(pid) FROM ({MINE}) AS mine")
        await in_the_end(lambda: at.settle(done(active)))
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(site, act)


LINGER = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON holdfast.pending DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger();
CREATE CONSTRAINT TRIGGER linger AFTER DELETE ON holdfast.active DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger();
"""


async def is_terminated(server: PostgresServer, waits_for: str, act: Callable[[], Awaitable[object]]) -> None:
    """Terminate the backend of an action while it waits at its commit, so that its outcome is unknown."""
    acting = asyncio.ensure_future(act())
    pid = await eventually(lambda: server.sql(f"{MINE} AND wait_event = '{waits_for}'"), within=STALL)
    server.sql(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(StoreUnavailable):
        await acting


def test_a_verb_whose_commit_did_not_happen_is_done_again(site: Site, server: PostgresServer) -> None:
    async def act(at: Scene) -> None:
        call, job, active = at.chance.uuid4(), at.new(), await at.running()
        with psycopg.connect(site.dsn, autocommit=True) as other:
            other.execute(LINGER)
            other.execute("SELECT pg_advisory_lock(1)")
            await is_terminated(server, "advisory", lambda: at.store.enqueue(call, [job]))
            await is_terminated(server, "advisory", lambda: at.settle(raised(active)))
        assert await at.store.get(job.id) is None
        assert await at.state(active.id) is State.RUNNING
        for _ in range(2):
            assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
            assert await at.settle(raised(active)) == (Answer.APPLIED,)
        assert (await at.row(active.id)).failures == 1
        assert await at.store.counts() == {("", State.AVAILABLE): 1, ("", State.SCHEDULED): 1}

    play(site, act)


def test_a_verb_whose_commit_was_not_acknowledged_is_not_done_twice(site: Site, server: PostgresServer) -> None:
    """This happens when a primary waits for a stand-by that does not answer: it has committed, and its client is cut off."""

    async def act(at: Scene) -> None:
        call, job, good, bad = at.chance.uuid4(), at.new(queue="mine"), await at.running(), await at.running()
        request = at.request(good.lease, queues=("mine",))
        server.configure(synchronous_standby_names="nobody")
        try:
            await is_terminated(server, "SyncRep", lambda: at.store.enqueue(call, [job]))
            await is_terminated(server, "SyncRep", lambda: at.settle(raised(bad)))
            await is_terminated(server, "SyncRep", lambda: at.store.exchange([done(good)], request))
        finally:
            server.configure(synchronous_standby_names="")
        assert await at.state(good.id) is State.COMPLETED
        (held,) = await at.store.held(good.lease)
        assert (held.id, held.token.claim) == (job.id, request.claim)
        assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
        assert await at.settle(raised(bad), done(good)) == (Answer.APPLIED, Answer.APPLIED)
        assert (await at.row(bad.id)).failures == 1
        assert await at.state(job.id) is State.RUNNING

    play(site, act)


async def beat_until_refused(at: Scene, lease: UUID) -> None:
    """Sessions that are open read a new setting only when the server's signal arrives."""
    while True:
        await at.store.beat([lease])


def test_a_read_only_server_is_reported_until_it_accepts_writes(site: Site, server: PostgresServer) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        server.configure(default_transaction_read_only="on")
        try:
            with pytest.raises(StoreUnavailable, match="read-only"):
                await beat_until_refused(at, active.lease)
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="read-only"):
                    await at.settle(done(active))
                with pytest.raises(StoreUnavailable, match="read-only"):
                    await at.store.beat([active.lease])
        finally:
            server.configure(default_transaction_read_only="off")
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(site, act)


def test_a_server_without_a_free_connection_is_unavailable_until_it_has_one(site: Site, server: PostgresServer) -> None:
    modest = f"modest_{site.dsn.rpartition('_')[2]}"
    server.sql(
        f"CREATE ROLE {modest} LOGIN CONNECTION LIMIT 1",
        f"GRANT ALL ON SCHEMA holdfast TO {modest}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO {modest}",
        dsn=site.dsn,
    )
    dsn = site.dsn.replace("//postgres@", f"//{modest}@")

    async def act(at: Scene) -> None:
        with psycopg.connect(dsn), pytest.raises(StoreUnavailable, match="too many connections"):
            await at.store.counts()
        assert await in_the_end(at.store.counts) == {}

    play(Site(dsn), act)
