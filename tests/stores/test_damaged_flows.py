"""Workflows that are damaged by hand: each is repaired to what one is from which nothing else was lost, and ends."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer
from holdfast._core.book.book import Book
from holdfast._core.dependencies import After
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.member_record import with_member
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.workflow import FlowVerb, FlowView
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part, Scene, done, play, rescued, story
from holdfast.testing.contracts.workflow_dependents import after, complete, dependents, is_intact, states
from holdfast.testing.contracts.workflow_scene import Graph, chain, verbs
from tests.contract.test_postgres import AtHome
from tests.stores.damaged_flows import Damage, Hands

PIECES = [
    pytest.param(60, marks=pytest.mark.timeout(120)),
    pytest.param(1000, marks=[pytest.mark.prove, pytest.mark.timeout(600)]),
]

TABLES = ("jobs", "members", "edges", "flows")


def survive(part: Part, hands: Hands, pieces: int, *, has_rows_of_members: bool = True) -> None:
    """Damage workflows of a store, and print how many pieces of each kind were repaired."""

    async def act(at: Scene) -> None:
        damage = Damage(at, hands, random.Random(pieces), has_rows_of_members=has_rows_of_members)
        await damage.survive(pieces)
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(damage.made.items()))
        print(f"{damage.made.total()} pieces of damage by hand, {damage.repaired} repairs: {kinds}")

    play(part, act)


class FlowsAreLost(Part):
    """What is promised where the rows of flows can be lost."""

    def lose_flow(self, flow: UUID) -> None:
        raise NotImplementedError

    @story
    async def test_l11_a_dependent_whose_flow_was_lost_delays_no_settle_and_is_repaired(self, at: Scene) -> None:
        job, other = await at.running(), await at.running()
        (child,), (beside,) = await after(at, job.id), await after(at, other.id)
        self.lose_flow(child)
        assert await at.settle(done(job), done(other)) == (Answer.APPLIED, Answer.APPLIED)
        await verbs(at.store).revive(9)
        assert await states(at, child, beside) == [State.AVAILABLE, State.AVAILABLE]
        await complete(at, child, beside)

    @story
    async def test_l17_a_parent_whose_flow_was_lost_is_still_waited_for(self, at: Scene) -> None:
        child, (parent, over) = at.new(), await at.enqueue(at.new(), at.new())
        await dependents(at.store).enqueue_after(at.chance.uuid4(), [child], After((parent, over)))
        await complete(at, over)
        self.lose_flow(parent)
        self.lose_flow(over)
        await verbs(at.store).revive(9)
        assert await states(at, child.id) == [State.BLOCKED]
        await complete(at, parent)
        await verbs(at.store).revive(9)
        assert await states(at, child.id) == [State.AVAILABLE]


class RowsAreLost(FlowsAreLost):
    """What is promised where single rows can be lost."""

    def lose_job(self, job: UUID) -> None:
        raise NotImplementedError

    def lose_member(self, job: UUID) -> None:
        raise NotImplementedError

    @story
    async def test_l17_a_paused_workflow_whose_row_was_lost_stays_paused_until_it_is_resumed(self, at: Scene) -> None:
        graph, other = await chain(at, "a", "b").stored(), await Graph(at).add("x").add("y").stored()
        await graph.steer(FlowVerb.PAUSE)
        await self.hold_for_a_crash(at, other, "x")
        for each in (graph, other):
            self.lose_flow(each.ids["root"])
        found = (await verbs(at.store).revive(9)).repairs
        assert [(each.node, each.was, each.now) for each in found] == [("workflow", (2, 2), (2, 2))] * 2
        assert [(await self.view(at, each)).flow.is_paused for each in (graph, other)] == [True, False]
        assert await other.states("x", "y") == [State.HELD, State.AVAILABLE]
        await other.run("y")
        assert await graph.states() == [State.BLOCKED, State.HELD, State.BLOCKED]
        assert await graph.steer(FlowVerb.RESUME) is State.BLOCKED
        await graph.run("a", "b")
        assert await graph.root() is State.COMPLETED

    async def hold_for_a_crash(self, at: Scene, graph: Graph, name: str) -> None:
        lease = await at.lease()
        policy = Policy(on_crash=CrashPolicy.HOLD)
        (claim,) = await at.claim(lease, ids=[graph.ids[name]], policy=policy)
        await at.store.end_lease(lease, why := LeaseEnd(RescueReason.CRASHED))
        assert await at.settle(rescued(claim.job, why)) == (Answer.APPLIED,)

    @story
    async def test_l17_an_outcome_in_a_workflow_whose_row_was_lost_counts_at_the_latest_after_the_repair(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").stored()
        (job,), plain = await graph.start("a"), await at.running()
        self.lose_flow(graph.ids["root"])
        assert (await at.settle(done(job), done(plain)))[0] in (Answer.APPLIED, Answer.BUSY)
        await verbs(at.store).revive(9)
        assert await at.settle(done(job), done(plain)) == (Answer.APPLIED, Answer.APPLIED)
        await graph.run("b")
        assert await graph.root() is State.COMPLETED

    @story
    async def test_l17_members_whose_rows_were_put_back_can_be_retried_and_those_of_other_workflows_stay(self, at: Scene) -> None:
        graph, other = await chain(at, "a", "b").stored(), await chain(at, "x", "y").stored()
        await graph.run("a")
        for name in ("a", "b"):
            self.lose_member(graph.ids[name])
        self.lose_member(other.ids["y"])
        await verbs(at.store).revive(9, flow=graph.ids["root"])
        assert await graph.states("a", "b") == [State.COMPLETED, State.AVAILABLE]
        assert [each.parents for each in (await self.view(at, graph)).members[:2]] == [(), (graph.ids["a"],)]
        assert [len((await self.view(at, each)).members) for each in (graph, other)] == [3, 2]
        await graph.steer(FlowVerb.RETRY, node=graph.ids["a"])
        await graph.run("a", "b")
        assert await graph.root() is State.COMPLETED

    @story
    async def test_l17_what_a_blocked_member_waited_for_is_not_known_once_its_row_was_lost(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").stored()
        for name in ("b", "root"):
            self.lose_member(graph.ids[name])
        await verbs(at.store).revive(9)
        assert await graph.states() == [State.BLOCKED, State.AVAILABLE, State.FAILED]
        _, member, root = (each.member for each in (await self.view(at, graph)).members)
        assert (member.is_gate, root.is_gate, root.needs, root.waits) == (False, True, 3, 1)
        await graph.run("a")
        assert await graph.root() is State.FAILED

    @story
    async def test_l17_a_dependent_whose_row_was_lost_waits_for_all_its_parents(self, at: Scene) -> None:
        first, second, *_ = *await at.enqueue(at.new(), at.new()), await chain(at, "a", "b").stored()
        (child,), (lone,) = await after(at, first, second), await after(at, first)
        self.lose_member(child)
        self.lose_member(lone)
        await verbs(at.store).revive(9)
        assert await states(at, child, lone) == [State.BLOCKED] * 2
        await complete(at, first)
        assert await states(at, child, lone) == [State.BLOCKED, State.AVAILABLE]
        await complete(at, second, child, lone)
        assert await is_intact(at)

    @story
    async def test_l17_a_parent_whose_row_was_lost_is_a_job_with_code_again(self, at: Scene) -> None:
        waiting, job = (await at.enqueue(at.new()))[0], await at.running()
        (child,), (of_job,) = await after(at, waiting), await after(at, job.id)
        self.lose_member(waiting)
        self.lose_member(job.id)
        await verbs(at.store).revive(9)
        assert await at.settle(done(job)) == (Answer.APPLIED,)
        assert await at.store.request_cancel([waiting]) == {waiting: State.CANCELLED}
        assert await states(at, child, of_job) == [State.FAILED, State.AVAILABLE]

    async def view(self, at: Scene, graph: Graph) -> FlowView:
        found = await verbs(at.store).flow(graph.ids["root"])
        assert found is not None
        return found

    @story
    async def test_members_of_a_workflow_whose_root_was_deleted_by_hand_end_and_can_be_deleted(self, at: Scene) -> None:
        graph = await Graph(at).add("a").add("b", "a").add("c", "b").stored()
        self.lose_job(graph.ids.pop("root"))
        await graph.run("a")
        await graph.fail("b")
        assert await graph.states("a", "b", "c") == [State.COMPLETED, State.FAILED, State.FAILED]
        assert await at.store.delete([*graph.ids.values()]) == {}


class TestMemory(FlowsAreLost):
    """Memory: what a job is in its workflow is part of its record."""

    @pytest.fixture(autouse=True)
    def no_store(self) -> None:
        self.store: MemoryStore | None = None

    def make_store(self, clock: FakeClock) -> Store:
        self.store = self.store or MemoryStore(clock)
        return self.store

    @pytest.mark.parametrize("pieces", PIECES)
    def test_l17_damage_made_by_hand_is_repaired_to_what_an_intact_run_gives(self, pieces: int) -> None:
        survive(self, self, pieces, has_rows_of_members=False)

    def set_counters(self, job: UUID, needs: int, waits: int) -> None:
        self._book._put(with_member(self._row(job), needs=needs, waits=waits))

    def block(self, job: UUID) -> None:
        self._book._put(structs.replace(self._row(job), state=State.BLOCKED))

    def lose_job(self, job: UUID) -> None:
        self._book._forget(self._row(job))

    def lose_member(self, job: UUID) -> None:
        """Do nothing: it went with the job."""

    def lose_edges(self, job: UUID) -> None:
        """Do nothing: they went with the job."""

    def lose_result(self, job: UUID) -> None:
        self._book._put(structs.replace(self._row(job), is_stub=True, result=None))

    def lose_flow(self, flow: UUID) -> None:
        self._book._all.flows.pop(flow, None)

    def left(self) -> dict[str, int]:
        return {table: len(getattr(self._book._all, table)) for table in TABLES}

    @property
    def _book(self) -> Book:
        assert self.store is not None
        return self.store.book

    def _row(self, job: UUID) -> JobRecord:
        return self._book._all.jobs[job]


class TestSqlite(RowsAreLost):
    """A file, changed by statements."""

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "jobs.db"

    def make_store(self, clock: FakeClock) -> Store:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=PROCESS)

    @pytest.mark.parametrize("pieces", PIECES)
    def test_l17_damage_made_by_hand_is_repaired_to_what_an_intact_run_gives(self, pieces: int) -> None:
        survive(self, self, pieces)

    def set_counters(self, job: UUID, needs: int, waits: int) -> None:
        self._change("UPDATE holdfast_members SET needs = ?2, waits = ?3 WHERE job = ?1", job, needs, waits)

    def block(self, job: UUID) -> None:
        self._change("UPDATE holdfast_jobs SET state = 'blocked' WHERE id = ?", job)

    def lose_job(self, job: UUID) -> None:
        self._change("DELETE FROM holdfast_jobs WHERE id = ?", job)

    def lose_member(self, job: UUID) -> None:
        self._change("DELETE FROM holdfast_members WHERE job = ?", job)

    def lose_edges(self, job: UUID) -> None:
        self._change("DELETE FROM holdfast_edges WHERE child = ?", job)

    def lose_result(self, job: UUID) -> None:
        self._change("UPDATE holdfast_jobs SET is_stub = 1, result = NULL WHERE id = ?", job)

    def lose_flow(self, flow: UUID) -> None:
        self._change("DELETE FROM holdfast_flows WHERE id = ?", flow)

    def left(self) -> dict[str, int]:
        with closing(sqlite3.connect(self.path)) as connection:
            return {table: connection.execute(f"SELECT count(*) FROM holdfast_{table}").fetchone()[0] for table in TABLES}

    def _change(self, statement: str, job: UUID, *values: int) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(statement, (job.bytes, *values))
            connection.commit()


class TestPostgres(AtHome, RowsAreLost):
    """A database, changed by statements."""

    @pytest.mark.parametrize("pieces", PIECES)
    def test_l17_damage_made_by_hand_is_repaired_to_what_an_intact_run_gives(self, pieces: int) -> None:
        survive(self, self, pieces)

    def set_counters(self, job: UUID, needs: int, waits: int) -> None:
        self.home.sql(f"UPDATE holdfast.members SET needs = {needs}, waits = {waits} WHERE job = '{job}'")

    def block(self, job: UUID) -> None:
        self.home.sql(f"UPDATE holdfast.pending SET state = 'blocked' WHERE id = '{job}'")

    def lose_job(self, job: UUID) -> None:
        for place in ("pending", "active", "finished"):
            self.home.sql(f"DELETE FROM holdfast.{place} WHERE id = '{job}'")

    def lose_member(self, job: UUID) -> None:
        self.home.sql(f"DELETE FROM holdfast.members WHERE job = '{job}'")

    def lose_edges(self, job: UUID) -> None:
        self.home.sql(f"DELETE FROM holdfast.edges WHERE child = '{job}'")

    def lose_result(self, job: UUID) -> None:
        self.home.sql(f"UPDATE holdfast.finished SET is_stub = true, result = NULL WHERE id = '{job}'")

    def lose_flow(self, flow: UUID) -> None:
        self.home.sql(f"DELETE FROM holdfast.flows WHERE id = '{flow}'")

    def left(self) -> dict[str, int]:
        return {table: self.home.sql(f"SELECT count(*) FROM holdfast.{table}")[0][0] for table in TABLES}
