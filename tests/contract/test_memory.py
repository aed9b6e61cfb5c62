"""The memory store keeps the contract, and its snapshots are whole and independent."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.book.content import Snapshot
from holdfast._core.dependencies import After
from holdfast._core.flow_moves import FlowMoves
from holdfast._core.graph import Cascade, Verdict
from holdfast._core.job import State
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.member_record import with_member
from holdfast._core.origin import Origin
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ProgressUpdate, QueueSettings
from holdfast._core.workflow import Flow, FlowVerb
from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contracts.auditing import note
from holdfast.testing.contracts.noting import noted
from holdfast.testing.contracts.recording_minutes import note as minute
from holdfast.testing.contracts.scene import Scene, done, play, raised
from holdfast.testing.contracts.scheduling import written
from holdfast.testing.contracts.signalling import send
from holdfast.testing.contracts.stepping import FIRST, recorded
from holdfast.testing.contracts.workflow_dependents import dependents
from holdfast.testing.contracts.workflow_scene import Graph, chain


class TestMemory(StoreContract):
    """Every handle is the same store."""

    store: MemoryStore | None = None

    def make_store(self, clock: FakeClock) -> Store:
        self.store = self.store or MemoryStore(clock)
        return self.store

    def test_a_snapshot_has_the_whole_state_and_later_writes_do_not_change_it(self) -> None:
        async def act(at: Scene) -> None:
            assert self.store is not None
            active, retried = await at.running(key="k", policy=Policy(timeout=9.0)), await at.running()
            await at.settle(raised(retried))
            (waiting,) = await at.enqueue(at.new(key="l"))
            await at.store.report([ProgressUpdate(job=active.id, token=active.token, order=1)])
            await at.store.pause(["q"], is_paused=True, by=note(at))
            await self.store.set_queue("q", QueueSettings(weight=2))
            await self.store.set_limit(Scope(ScopeKind.QUEUE, "limited"), Limit(rate="1/m"), Origin())
            await at.enqueue(at.new(queue="limited"))
            assert (await self.store.exchange((), at.request(active.lease, kind=ClaimKind.LIMITED))).claims
            await written(at)
            await noted(at, active.lease, 1, kept=1000.0)
            await self.store.record_minutes([minute(at)])
            await recorded(at, active, FIRST)
            await send(at, active.id)
            await chain(at, "a", "b").stored()
            snapshot = self.store.snapshot()
            unused = {"archives", "recalled"}  # only stores in a bucket archive jobs
            assert {field.name for field in structs.fields(Snapshot) if not getattr(snapshot, field.name)} == unused
            twin = self.store.snapshot()
            for _ in range(2):
                at.advance(1000.0)
                await at.settle(structs.replace(done(active), forgets_steps=True))
                await at.store.delete([waiting, retried.id])
                await at.store.pause(["q"], is_paused=False)
                await at.running(key="m")
                await at.store.prune(100)
                assert snapshot == twin
                self.store.restore(snapshot)
                assert [each.job for each in await at.store.overdue(10)] == [active]
                assert await at.state(active.id) is State.RUNNING
            assert self.store.snapshot() == twin

        play(self, act)

    def test_l17_damaged_workflows_are_repaired_and_the_repairs_are_reported(self) -> None:
        async def act(at: Scene) -> None:
            assert self.store is not None
            graph = await Graph(at).add("a").add("b").add("c", "a", "b").add("d", "c").stored()
            await graph.run("a")
            rows = {name: await at.row(job) for name, job in graph.ids.items()}
            with_wrong_counters, root = with_member(rows["c"], needs=2, waits=2), with_member(rows["root"], needs=0, waits=7)
            for row in (with_wrong_counters, root):
                self.store.book._put(row)
            for is_dry in (True, False):
                found = (await self.store.revive(9, dry_run=is_dry)).repairs
                assert [(each.node, each.was, each.now) for each in found] == [
                    ("c", (2, 2), (1, 1)),
                    ("workflow", (0, 7), (3, 3)),
                ]
            assert {name: await at.row(job) for name, job in graph.ids.items()} == rows
            self.store.book._forget(rows["b"])
            await self.store.revive(9)
            assert await graph.states("c", "d", "root") == [State.FAILED] * 3

        play(self, act)

    def test_a_dependent_waits_for_the_retry_of_the_dependent_that_it_fails_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ended, apply = list[UUID](), FlowMoves.apply

        def spy(self: FlowMoves, flow: Flow, cascade: Cascade) -> None:
            ended.extend(job for job, verdict in cascade.verdicts.items() if verdict is Verdict.FAIL)
            apply(self, flow, cascade)

        async def act(at: Scene) -> None:
            graph = await Graph(at).add("a").add("b").stored()
            first, last = at.new(), at.new()
            for job, parents in ((first, [graph.ids["b"]]), (last, [graph.ids["a"], first.id])):  # the last one is found first
                await dependents(at.store).enqueue_after(at.chance.uuid4(), [job], After(tuple(parents)))
            await graph.fail("a", "b")
            assert [await at.state(each.id) for each in (first, last)] == [State.FAILED, State.FAILED]
            monkeypatch.setattr(FlowMoves, "apply", spy)
            await graph.steer(FlowVerb.RETRY)
            assert [await at.state(each.id) for each in (first, last)] == [State.BLOCKED, State.BLOCKED]
            assert not ended

        play(self, act)
