"""Each recovery pass repairs some workflows, going round by their ids, and ends those past their deadline."""

from uuid import UUID

import pytest

from holdfast._core.job import NewJob, Reason, State
from holdfast._core.member import Member
from holdfast._core.member_record import with_member
from holdfast._core.policy import Policy
from holdfast._core.workflow import NewFlow, NewMember, gate_edges
from holdfast._engine.environment import Environment
from holdfast._engine.supervisor.reviver import LONGEST, MOST, QUICK, WRITES, Reviver
from holdfast.settings import EVERY_KIND, RecoverySwitches, Settings
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryTransport
from tests.engine.support import TIMING, Log


class Site:
    """A store with workflows, and the reviver of a supervisor."""

    def __init__(self, switches: RecoverySwitches = EVERY_KIND) -> None:
        self.clock, self.chance, self.log, self.transport = FakeClock(), FakeChance(), Log(), MemoryTransport()
        self.store = MemoryStore(self.clock)
        environment = Environment(self.store, self.transport, self.clock, self.chance, self.log.events)
        self.settings = Settings(url="memory://", timing=TIMING, recovery_interval=3.0, recovery=switches)
        self.reviver = Reviver(environment, self.settings)

    async def workflow(self, *, deadline: float | None = None) -> tuple[UUID, UUID]:
        """Store a workflow of one node; return the ids of both."""
        root, node = (NewJob(id=self.chance.uuid7(), task=task, payload=b"{}", policy=Policy()) for task in ("release", "build"))
        gate = NewMember(root, Member(flow=root.id, node="release", is_gate=True))
        members = (NewMember(node, Member(flow=root.id, node="build")),)
        flow = NewFlow(root=gate, members=members, edges=gate_edges(root.id, [node.id], ()), deadline=deadline)
        await self.store.enqueue_flow(self.chance.uuid4(), flow)
        return root.id, node.id

    async def damage(self, root: UUID) -> None:
        row = await self.store.get(root)
        assert row is not None
        self.store.book._put(with_member(row, needs=5, waits=5))

    async def state(self, job: UUID) -> tuple[State, Reason | None]:
        row = await self.store.get(job)
        assert row is not None
        return row.state, row.reason


async def test_damaged_counters_are_repaired_and_reported_once() -> None:
    site = Site()
    root, _ = await site.workflow()
    await site.damage(root)
    assert await site.reviver.step() == 3.0
    assert await site.reviver.step() == 3.0
    assert site.log.of("workflow.repaired") == [
        {
            "workflow": root,
            "job": root,
            "node": "release",
            "was": "needs 5, waits for 5",
            "is": "needs 1, waits for 1",
        }
    ]


async def test_a_workflow_past_its_deadline_ends_and_workers_are_woken() -> None:
    site = Site()
    root, node = await site.workflow(deadline=60.0)
    await site.reviver.step()
    assert (await site.state(root))[0] is State.BLOCKED
    site.clock.advance(61)
    before = len(site.transport.published)
    await site.reviver.step()
    assert site.log.of("workflow.timed_out") == [{"workflow": root}]
    assert await site.state(root) == (State.FAILED, Reason.TIMED_OUT)
    assert await site.state(node) == (State.CANCELLED, Reason.BY_WORKFLOW)
    assert len(site.transport.published) > before


async def test_a_pass_is_bounded_and_the_next_one_goes_on_behind_it() -> None:
    site = Site()
    roots = [(await site.workflow())[0] for _ in range(WRITES * MOST + 5)]
    for root in roots:
        await site.damage(root)
    first = 1 + 2 + 4 + 8 + MOST * (WRITES - 4)
    await site.reviver.step()
    assert [each["workflow"] for each in site.log.of("workflow.repaired")] == roots[:first]
    await site.reviver.step()
    assert [each["workflow"] for each in site.log.of("workflow.repaired")] == roots
    await site.damage(roots[0])
    await site.reviver.step()
    assert site.log.of("workflow.repaired")[-1]["workflow"] == roots[0]


@pytest.mark.parametrize(("seconds", "repaired"), [(QUICK / 2, 25), (2 * QUICK, WRITES), (LONGEST + 0.1, 1)])
async def test_slow_writes_are_of_one_workflow_and_a_slow_pass_begins_no_other_write(seconds: float, repaired: int) -> None:
    site = Site()
    for _ in range(25):
        await site.damage((await site.workflow())[0])
    revive = site.store.revive

    async def slow(*args: object, **kwargs: object) -> object:
        site.clock.advance(seconds)
        return await revive(*args, **kwargs)  # type: ignore[arg-type]

    site.store.revive = slow  # type: ignore[method-assign, assignment]
    await site.reviver.step()
    assert len(site.log.of("workflow.repaired")) == repaired


async def test_switched_off_it_changes_nothing_and_counts_what_it_left() -> None:
    site = Site(RecoverySwitches(workflows=False))
    root, _ = await site.workflow(deadline=60.0)
    await site.damage((await site.workflow())[0])
    site.clock.advance(61)
    await site.reviver.step()
    await site.reviver.step()
    assert site.log.of("recovery.skipped") == [{"workflows": 2}] * 2
    assert (await site.state(root))[0] is State.BLOCKED
