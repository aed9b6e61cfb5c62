"""A settle of members takes the lock of their workflow first, and reads counters after it; a server that is killed at such a commit."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from holdfast._core.answers import Answer
from holdfast._core.job import State
from holdfast.errors import StoreUnavailable
from holdfast.stores.postgres.locked_flows import LockedFlows
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.contracts.scene import Scene, done, insist, play
from holdfast.testing.contracts.workflow_scene import Graph, chain, verbs
from holdfast.testing.servers import PostgresServer
from tests.contract.test_postgres import AtHome
from tests.e2e.waiting import STALL, eventually
from tests.stores.postgres_faulty_databases import Ground, Site, in_the_end
from tests.stores.test_postgres_server import LINGER

WIDTH = 10_000
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
LOCKED_FIRST = (
    "WITH gate AS MATERIALIZED (SELECT id FROM holdfast.flows WHERE id = ANY(:flows::uuid[]) ORDER BY id FOR UPDATE), "
    "start AS MATERIALIZED (SELECT count(*) FROM gate), clock AS"
)


class TestLocks(AtHome):
    """Settles that wait for the lock of their workflow, which another session holds."""

    async def held_by_another(self, graph: Graph, *settles: "asyncio.Task[Any]", meet: str = "SELECT") -> None:
        """Hold the lock until all settles wait for it, and then run a statement in the session that holds it."""
        with psycopg.connect(self.home.dsn) as session:
            session.execute("SELECT FROM holdfast.flows WHERE id = %s FOR UPDATE", [graph.ids["root"]])
            pending = [asyncio.ensure_future(each) for each in settles]
            await eventually(lambda: self.home.sql(WAITING) == [(len(settles),)], within=STALL)
            session.execute(meet)  # type: ignore[arg-type]
        await asyncio.gather(*pending)

    def settle_at_once(self) -> None:
        """Let two parents of one child end at once, and assert that it is released."""

        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b").add("c", "a", "b").stored()
            one, two = await graph.start("a", "b")
            owners = at.another(), at.another()
            await self.held_by_another(graph, insist(owners[0], [done(one)]), insist(owners[1], [done(two)]))
            assert await graph.states("a", "b", "c") == [State.COMPLETED, State.COMPLETED, State.AVAILABLE]

        play(self, act)

    def settle_behind_a_cancel(self) -> None:
        """Let a member end while another session holds the workflow and then locks the member, as each verb of an operator does."""

        async def act(at: Scene) -> None:
            graph = await chain(at, "a", "b").stored()
            (job,) = await graph.start("a")
            meet = f"SELECT FROM holdfast.active WHERE id = '{job.id}' FOR UPDATE NOWAIT"
            await self.held_by_another(graph, insist(at.another(), [done(job)]), meet=meet)
            assert await graph.states("a", "b") == [State.COMPLETED, State.AVAILABLE]

        play(self, act)

    def test_s19_parents_that_end_at_once_release_their_child(self) -> None:
        self.settle_at_once()

    def test_l12_a_settle_that_waits_for_its_workflow_holds_none_of_its_jobs(self) -> None:
        self.settle_behind_a_cancel()

    def test_s19_counters_that_are_read_in_the_statement_that_locks_are_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lock_text, text = PostgresStore._lock_text, PostgresStore._text

        def without_lock(store: PostgresStore, query: str, flows: Any) -> str:
            return "SELECT" if query == "lock_flows" else lock_text(store, query, flows)

        def counting(store: PostgresStore, name: str) -> str:
            read = text(store, name)
            if name == "settle_members":
                read = read.replace("WITH clock AS", LOCKED_FIRST).replace(
                    "FROM clock_timestamp()", "FROM start, clock_timestamp()", 1
                )
            return read

        monkeypatch.setattr(PostgresStore, "_lock_text", without_lock)
        monkeypatch.setattr(PostgresStore, "_text", counting)
        with pytest.raises(AssertionError, match="BLOCKED"):
            self.settle_at_once()

    def test_l12_a_workflow_that_is_locked_after_its_jobs_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pass_on = LockedFlows.pass_on

        async def late(flows: LockedFlows, settled: Any, links: Any) -> None:
            await flows.lock(flows.locked)
            await pass_on(flows, settled, links)

        monkeypatch.setattr(PostgresStore, "_lock_text", lambda *_: "SELECT")
        monkeypatch.setattr(LockedFlows, "pass_on", late)
        with pytest.raises(LockNotAvailable):
            self.settle_behind_a_cancel()


@pytest.fixture
def server(breakable: Ground) -> PostgresServer:
    return breakable.server


def test_s19_a_server_killed_at_the_commit_of_a_wide_release_has_released_nothing(
    breakable: Ground, server: PostgresServer
) -> None:
    site = Site(breakable.database())

    async def act(at: Scene) -> None:
        graph = Graph(at).add("first")
        for number in range(WIDTH):
            graph.add(str(number), "first")
        (job,) = await (await graph.stored()).start("first")
        with psycopg.connect(site.dsn, autocommit=True) as other:
            other.execute(LINGER)
            other.execute("SELECT pg_advisory_lock(1)")
            settling = asyncio.ensure_future(at.store.exchange([done(job)]))
            await eventually(lambda: server.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'"), within=STALL)
            server.kill()
            with pytest.raises(StoreUnavailable):
                await settling
        server.start()
        assert await in_the_end(lambda: graph.states("first", "0", str(WIDTH - 1))) == [
            State.RUNNING,
            State.BLOCKED,
            State.BLOCKED,
        ]
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await at.store.counts() == {("", State.COMPLETED): 1, ("", State.AVAILABLE): WIDTH, ("", State.BLOCKED): 1}
        assert (await verbs(at.store).revive(99)).repairs == ()

    play(site, act)
