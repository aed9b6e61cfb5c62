"""Workflows in a file: repairs of what was damaged by hand."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import State
from holdfast._core.workflow import Revived
from holdfast._ports.store import Store
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import Part, Scene, play
from holdfast.testing.contracts.workflow_scene import Graph, verbs
from tests.stores.claimed_results import brings_small_results

COUNTERS = "UPDATE holdfast_members SET needs = {needs}, waits = {waits} WHERE node = '{node}'"


class TestSqliteWorkflows(Part):
    """Every handle opens the same file."""

    path: Path

    def setup_method(self) -> None:
        self.path = Path("unset")

    def make_store(self, clock: FakeClock) -> Store:
        return SqliteStore(self.path, clock=clock, chance=FakeChance(), process=ProcessIdentity("web-1", 42, 7, "boot"))

    def damage(self, *statements: str) -> None:
        """Change the file by hand."""
        with closing(sqlite3.connect(self.path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    def play(self, tmp_path: Path, act: Callable[[Scene], object]) -> None:
        """Run a story on a new file."""
        self.path = tmp_path / "jobs.db"
        play(self, act)  # type: ignore[arg-type]

    def test_l17_counters_damaged_by_hand_are_repaired_to_those_of_an_intact_workflow(self, tmp_path: Path) -> None:
        async def act(at: Scene) -> None:
            graph = Graph(at).add("a").add("b").add("c", "a", "b").add("d", "c").add("e", "a", "b", "c", join=2)
            await graph.stored()
            await graph.run("a")
            intact = {name: await at.row(job) for name, job in graph.ids.items()}
            chance = random.Random(5)
            for _ in range(20):
                damaged = chance.sample(["c", "d", "e", "workflow"], chance.randint(1, 4))
                self.damage(
                    *(COUNTERS.format(needs=chance.randint(0, 4), waits=chance.randint(0, 6), node=node) for node in damaged)
                )
                found = await verbs(at.store).revive(9)
                assert {each.node for each in found.repairs} <= set(damaged)
                assert {name: await at.row(job) for name, job in graph.ids.items()} == intact
                assert (await verbs(at.store).revive(9)).repairs == ()

        self.play(tmp_path, act)

    def test_s21_a_claim_brings_the_small_results_that_it_takes(self, tmp_path: Path) -> None:
        self.play(tmp_path, brings_small_results)

    def test_l17_a_release_that_was_undone_by_hand_is_done_again(self, tmp_path: Path) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").stored()
            await graph.run("a")
            self.damage(
                "UPDATE holdfast_jobs SET state = 'blocked' WHERE id IN (SELECT job FROM holdfast_members WHERE node = 'b')"
            )
            (found,) = (await verbs(at.store).revive(9, dry_run=True)).repairs
            assert (found.node, await graph.states("b")) == ("b", [State.BLOCKED])
            await verbs(at.store).revive(9)
            await graph.run("b")
            assert await graph.root() is State.COMPLETED

        self.play(tmp_path, act)

    def test_l17_dependents_of_a_member_that_was_deleted_by_hand_fail(self, tmp_path: Path) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").add("c", "a", tolerates=True).stored()
            self.damage(
                "DELETE FROM holdfast_jobs WHERE id IN (SELECT job FROM holdfast_members WHERE node = 'a')",
                "DELETE FROM holdfast_members WHERE node = 'a'",
            )
            del graph.ids["a"]
            await verbs(at.store).revive(9)
            assert await graph.states("b", "c") == [State.FAILED, State.AVAILABLE]
            await graph.run("c")
            assert await graph.root() is State.FAILED

        self.play(tmp_path, act)

    def test_a_workflow_whose_policy_cannot_be_read_ends_as_others_do(self, tmp_path: Path) -> None:
        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b", "a").stored()
            self.damage("UPDATE holdfast_jobs SET policy = 'spoiled'")
            await graph.fail("a")
            assert await graph.states("b", "root") == [State.FAILED, State.FAILED]

        self.play(tmp_path, act)

    def test_intact_workflows_are_looked_through_without_the_lock_of_the_file(self, tmp_path: Path) -> None:
        async def act(at: Scene) -> None:
            await Graph(at).add("a").add("b", "a").stored()
            with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")  # a write would wait, and then fail
                assert await verbs(at.store).revive(9) == Revived()
                other.execute("ROLLBACK")

        self.play(tmp_path, act)
