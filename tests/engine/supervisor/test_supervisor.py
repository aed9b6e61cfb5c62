"""The supervisor spawns, renews, recovers and drains workers; a store that fails makes it neither end nor lose anything."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest
from holdfast._core.store_notices import ClockCorrected, Crowded, DamagedObject
from holdfast._core.timing import LeaseTiming
from holdfast._engine import messages
from holdfast._engine.supervisor.supervisor import Supervisor, SupervisorOptions
from holdfast._engine.supervisor.worker_handle import START_TIMEOUT
from holdfast._ports.host import Exit
from holdfast.errors import ConfigurationError, SchemaTooNew, StoreDamaged, StoreUnavailable
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance
from tests.engine.machines import MemoryChild, MemoryHost, MemoryTransport
from tests.engine.support import OTHER, SETTINGS, TIMING, Flaky, Log, LoopClock, enqueue, turns, until
from tests.event_loops import beside, run_virtual

HELLO = messages.WorkerHello(SETTINGS, ("t",), ())
KILLED = Exit(signal="SIGKILL")


class StoreClock(LoopClock):
    """The clock of the store, which may step."""

    step = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.step


class Fleet:
    """A supervisor whose workers the test plays."""

    def __init__(
        self, *, processes: int = 1, until_empty: bool = False, grace: float | None = None, prefetch: bool = False
    ) -> None:
        self.clock, self.chance, self.log, self.host = LoopClock(), FakeChance(), Log(), MemoryHost()
        self.store_clock = StoreClock()
        self.memory = MemoryStore(self.store_clock)
        self.store, self.transport = Flaky(self.memory, prefetch=prefetch), MemoryTransport()
        self.refusals: list[Exception] = []
        self.supervisor = Supervisor(
            host=self.host,
            clock=self.clock,
            chance=self.chance,
            events=self.log.events,
            connect=self._connect,
            options=SupervisorOptions(processes=processes, until_empty=until_empty, grace=grace),
            arguments=("app:app",),
        )
        self.running = beside(self.supervisor.run())

    def _connect(self, settings: Settings) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        return self.store, self.transport

    async def spawned(self) -> MemoryChild:
        """Return the next worker process, which has sent no message yet."""
        return await self.host.children.get()

    async def ready(self) -> tuple[MemoryChild, messages.LeaseGranted]:
        """Return the next worker, once it has its lease and has reported that it is ready."""
        child = await self.spawned()
        child.far.say(HELLO)
        leased = await child.far.hear(messages.LeaseGranted)
        child.far.say(messages.Ready())
        await turns()
        return child, leased

    async def claim(self, leased: messages.LeaseGranted, jobs: int = 1, *, prefetch: int = 0) -> list[UUID]:
        """Enqueue jobs and claim them for this worker; return their ids."""
        made = await enqueue(self.memory, self.chance, *[("t", b"{}")] * (jobs + prefetch))
        request = ClaimRequest(
            lease=leased.lease, claim=self.chance.uuid4(), tasks={"t": Policy()}, limit=jobs, prefetch=prefetch
        )
        assert len((await self.memory.exchange([], request)).claims) == jobs + prefetch
        return made

    async def row(self, job: UUID) -> JobRecord:
        row = await self.memory.get(job)
        assert row is not None
        return row


async def passing(seconds: float) -> None:
    await LoopClock().sleep(seconds)


async def answer_pings(child: MemoryChild) -> None:
    """Answer pings as a worker whose loop runs and whose code never stops."""
    while (data := await child.far.receive()) is not None:
        if isinstance(messages.decode(data), messages.Ping):
            child.far.say(messages.Pong(LoopClock().monotonic()))


async def obey(child: MemoryChild, is_idle: Callable[[], bool] = lambda: False) -> None:
    """Act as a healthy worker without jobs: answer pings, end when asked."""
    while (data := await child.far.receive()) is not None:
        match messages.decode(data):
            case messages.Ping():
                child.far.say(messages.Pong(LoopClock().monotonic(), is_idle()))
            case messages.Drain() | messages.LeaseLost():
                child.end(Exit(code=0))


# start


@pytest.mark.virtual_time
async def test_a_worker_gets_its_lease_after_its_hello_with_a_deadline_that_counts_from_the_sending() -> None:
    fleet = Fleet()
    child = await fleet.spawned()
    await passing(5)
    assert fleet.store.calls == [], "the store is not opened before a worker has named it"
    gate = fleet.store.hold("open_lease")
    child.far.say(HELLO)
    await gate.entered.wait()
    sent = fleet.clock.monotonic()
    await passing(3)
    gate.opened.set()
    leased = await child.far.hear(messages.LeaseGranted)
    assert leased.deadline == sent + TIMING.ttl - TIMING.margin
    (lease,) = await fleet.memory.workers()
    assert (lease.id, lease.worker, lease.process, lease.tasks) == (leased.lease, leased.worker, child.process, ("t",))
    assert leased.worker == f"host-100-{leased.lease.hex[:8]}"


@pytest.mark.virtual_time
async def test_an_app_that_cannot_be_loaded_ends_the_supervisor_with_exit_code_2_and_its_problems() -> None:
    fleet = Fleet(processes=2)
    child, other = await fleet.spawned(), await fleet.spawned()
    child.far.say(messages.StartRefused(("app:app has no tasks",)))
    child.end(Exit(code=2))
    assert await fleet.running == 2
    assert fleet.supervisor.problems == ("app:app has no tasks",)
    assert other.kills == 1
    assert len(fleet.host.spawned) == 2


@pytest.mark.virtual_time
async def test_a_store_that_is_damaged_under_a_worker_ends_the_supervisor_with_exit_code_1_and_the_remedy() -> None:
    fleet = Fleet(processes=2)
    (child, _), (other, _) = await fleet.ready(), await fleet.ready()
    beside(obey(other))
    child.far.say(messages.StartRefused(("malformed: restore a backup",)))
    child.end(Exit(code=0))
    assert await fleet.running == 1
    assert fleet.supervisor.problems == ("malformed: restore a backup",)
    assert len(fleet.host.spawned) == 2


@pytest.mark.virtual_time
async def test_an_unreachable_store_at_the_start_ends_the_supervisor_with_exit_code_75_after_30_seconds() -> None:
    fleet = Fleet(processes=2)
    fleet.store.is_out = True
    started = fleet.clock.monotonic()
    for _ in range(2):
        (await fleet.spawned()).far.say(HELLO)
    assert await fleet.running == 75
    assert 30 <= fleet.clock.monotonic() - started <= 33


@pytest.mark.virtual_time
async def test_the_supervisor_waits_for_a_store_that_comes_back_within_30_seconds() -> None:
    fleet = Fleet()
    fleet.refusals = [StoreUnavailable("not yet")] * 3
    fleet.store.is_out = True
    child = await fleet.spawned()
    child.far.say(HELLO)
    await passing(25)
    fleet.store.is_out = False
    await child.far.hear(messages.LeaseGranted)
    assert not fleet.running.done()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("error", "code", "problems"),
    [
        (ConfigurationError(["no such store", "nor such a folder"]), 2, ("no such store", "nor such a folder")),
        (SchemaTooNew("migrated by a newer release"), 1, ("migrated by a newer release",)),
        (StoreDamaged("malformed: restore a backup"), 1, ("malformed: restore a backup",)),
    ],
    ids=["settings", "schema", "damage"],
)
async def test_the_supervisor_does_not_wait_for_a_store_that_reports_a_problem(
    error: Exception, code: int, problems: tuple[str, ...]
) -> None:
    fleet = Fleet()
    fleet.refusals = [error]
    started = fleet.clock.monotonic()
    (await fleet.spawned()).far.say(HELLO)
    assert await fleet.running == code
    assert fleet.supervisor.problems == problems
    assert [fields["reason"] for fields in fleet.log.of("worker.killed")] == ["the supervisor gives up"]
    assert fleet.clock.monotonic() - started < 5


@pytest.mark.virtual_time
async def test_a_running_supervisor_never_ends_because_of_an_outage() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    fleet.store.is_out = True
    beside(answer_pings(child))
    await passing(600)
    child.end(KILLED)
    (await fleet.spawned()).far.say(HELLO)
    await passing(600)
    assert not fleet.running.done()


@pytest.mark.virtual_time
async def test_at_the_start_leases_of_dead_processes_of_this_machine_end_at_once() -> None:
    fleet = Fleet()
    await fleet.memory.open_lease(OTHER)
    (job,) = await fleet.claim(messages.LeaseGranted(OTHER.id, "worker-2", 0.0))
    await fleet.ready()
    assert (await fleet.row(job)).state is State.AVAILABLE
    assert fleet.host.killed == [OTHER.process.pid]


# spawning


@pytest.mark.virtual_time
async def test_a_dead_worker_is_replaced_at_once_and_after_a_backoff_only_if_it_died_before_it_was_ready() -> None:
    fleet = Fleet()
    for _ in range(5):
        child, _ = await fleet.ready()
        child.end(KILLED)
    for _ in range(10):
        (await fleet.spawned()).end(Exit(code=1))
    await fleet.spawned()
    waits = [later - sooner for sooner, later in zip(fleet.host.times, fleet.host.times[1:], strict=False)]
    assert max(waits[:5]) < 0.1
    assert waits[5:9] == pytest.approx([0.5, 1.0, 2.0, 4.0], abs=0.1)
    assert waits[-1] == pytest.approx(30.0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_machine_that_cannot_spawn_for_days_does_not_end_the_supervisor() -> None:
    fleet = Fleet()
    fleet.host.errors.extend([OSError("no more processes")] * 1500 + [RuntimeError("can't start new thread")])
    child, _ = await fleet.ready()
    assert child.process.pid == 100


@pytest.mark.virtual_time
async def test_l2_a_worker_whose_exit_cannot_be_watched_ends_no_other_worker_and_is_replaced() -> None:
    fleet = Fleet(processes=2)
    healthy, _ = await fleet.ready()
    unwatchable, _ = await fleet.ready()
    unwatchable.has_ended.set_exception(OSError(24, "Too many open files"))
    successor, _ = await fleet.ready()
    assert (unwatchable.kills, healthy.kills) == (1, 0)
    assert [worker.child for worker in fleet.supervisor.workers] == [healthy, successor]


@pytest.mark.virtual_time
async def test_l2_a_worker_that_sends_an_unknown_message_is_killed() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    child.far.send(b"no message of ours")
    await turns()
    assert child.kills == 1
    assert [fields["reason"] for fields in fleet.log.of("worker.killed")] == ["it sent a message that no worker sends"]


# beats


@pytest.mark.virtual_time
async def test_one_beat_renews_all_workers_and_comes_once_a_beat() -> None:
    fleet = Fleet(processes=3)
    workers = [await fleet.ready() for _ in range(3)]
    for child, _ in workers:
        beside(answer_pings(child))
    fleet.store.calls.clear()
    await passing(10.5 * TIMING.beat)
    assert fleet.store.calls.count("beat") == 10
    assert all(lease.overdue < -TIMING.ttl + TIMING.beat + 0.1 for lease in await fleet.memory.workers())
    assert len({tuple(child.deadlines[-9:]) for child, _ in workers}) == 1


@pytest.mark.virtual_time
async def test_l3_after_a_failed_beat_the_next_ones_come_soon_and_renew_an_expired_lease_that_was_not_ended() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    beside(answer_pings(child))
    await passing(TIMING.beat)
    fleet.store.is_out = True
    await passing(2 * TIMING.ttl)
    fleet.store.calls.clear()
    await passing(TIMING.beat)
    assert fleet.store.calls.count("beat") >= 2, "retried at least once a beat"
    fleet.store.is_out = False
    deadlines_before = len(child.deadlines)
    await passing(TIMING.beat)
    assert len(child.deadlines) > deadlines_before
    (lease,) = await fleet.memory.workers()
    assert (lease.id, lease.overdue < 0, child.kills) == (leased.lease, True, 0)


@pytest.mark.virtual_time
async def test_l3_a_beat_that_hangs_is_cancelled_in_time_for_another_one_before_the_deadline() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    await passing(TIMING.beat)
    fleet.store.hold("beat")
    await passing(TIMING.ttl)
    gaps = [later - sooner for sooner, later in zip(child.deadlines, child.deadlines[1:], strict=False)]
    assert max(gaps) < TIMING.ttl - TIMING.margin


@pytest.mark.virtual_time
async def test_l5_a_worker_whose_lease_was_ended_learns_it_within_one_beat_and_is_replaced() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    beside(answer_pings(child))
    await fleet.memory.end_lease(leased.lease, LeaseEnd(RescueReason.EXPIRED))
    ended = fleet.clock.monotonic()
    await until(lambda: child.kills)
    assert fleet.clock.monotonic() - ended <= TIMING.beat + 2 * TIMING.margin + 2
    _, again = await fleet.ready()
    assert again.lease != leased.lease


@pytest.mark.virtual_time
async def test_a_cancellation_reaches_the_worker_that_holds_the_job() -> None:
    fleet = Fleet(processes=2)
    (child, leased), (other, _) = await fleet.ready(), await fleet.ready()
    (job,) = await fleet.claim(leased)
    await fleet.memory.request_cancel([job])
    assert (await child.far.hear(messages.CancelJobs)).jobs == (job,)
    assert not any(isinstance(message, messages.CancelJobs) for message in other.far.received())


@pytest.mark.virtual_time
async def test_l3_all_leases_use_the_first_settings_by_which_all_are_renewed() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    child.end(KILLED)
    changed = structs.replace(SETTINGS, timing=LeaseTiming.of("3s"))
    (await fleet.spawned()).far.say(structs.replace(HELLO, settings=changed))
    await passing(1)
    (lease,) = await fleet.memory.workers()
    assert lease.timing == TIMING


@pytest.mark.virtual_time
async def test_the_rhythm_of_beats_counts_from_their_sending() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    for _ in range(9):
        gate = fleet.store.hold("beat")
        await gate.entered.wait()
        await passing(3)
        gate.opened.set()
    gaps = {round(later - sooner, 3) for sooner, later in zip(child.deadlines[2:], child.deadlines[3:], strict=False)}
    assert gaps == {TIMING.beat}


@pytest.mark.virtual_time
async def test_l3_no_lease_is_judged_while_the_store_is_read_only_nor_right_after() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    fleet.host.running.add(OTHER.process.pid)
    await fleet.memory.open_lease(OTHER)
    fleet.store.fail("beat", times=1_000_000)
    fleet.store.fail("end_lease", times=1_000_000)
    await passing(3 * TIMING.ttl)
    fleet.store.clear_faults()
    await passing(TIMING.beat + TIMING.margin - 1)
    assert (await fleet.memory.beat([OTHER.id])).alive == {OTHER.id}


# clocks


@pytest.mark.virtual_time
async def test_a_step_of_the_stores_clock_is_reported_and_no_lease_is_judged_for_a_while() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    fleet.host.running.add(OTHER.process.pid)
    await fleet.memory.open_lease(OTHER)
    for _ in range(10):
        await passing(TIMING.beat)
        await fleet.memory.beat([OTHER.id])
    fleet.store_clock.step = 10 * TIMING.ttl
    for _ in range(3):
        await passing(TIMING.beat / 2)
    assert len(fleet.log.of("store.clock_stepped")) == 1
    assert (await fleet.memory.beat([OTHER.id])).alive == {OTHER.id}


@pytest.mark.virtual_time
async def test_late_answers_do_not_count_as_a_step_of_the_clock() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    for is_back in (True, False, True, True, False):
        gate = fleet.store.hold("beat", is_back=is_back)
        await gate.entered.wait()
        await passing(TIMING.margin + 1)
        gate.opened.set()
    await passing(20)
    assert fleet.log.of("store.clock_stepped") == []


@pytest.mark.virtual_time
async def test_a_beat_whose_answer_was_lost_does_not_count_as_a_step_of_the_clock() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    await passing(TIMING.beat + 1)
    fleet.store.lose_answer("beat")
    await passing(20)
    assert fleet.log.of("store.clock_stepped") == []


@pytest.mark.virtual_time
async def test_what_the_store_has_noticed_becomes_events_also_after_a_beat_that_failed() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    beside(answer_pings(child))
    fleet.store.notices.extend([Crowded("jobs", 8, 10), ClockCorrected(-60.0)])
    await passing(TIMING.beat + 1)
    assert fleet.log.of("store.crowded") == [{"limit": "jobs", "used": 8, "most": 10}]
    assert fleet.log.of("store.clock_stepped") == [{"correction": -60.0}]
    fleet.store.notices.append(DamagedObject("runs/1", "cannot be read"))
    fleet.store.fail("beat")
    await passing(TIMING.beat)
    assert fleet.log.of("store.damaged") == [{"key": "runs/1", "problem": "cannot be read"}]


# recovery of dead workers


@pytest.mark.virtual_time
async def test_l1_jobs_of_a_killed_worker_return_to_their_queue_at_once_with_the_signal_on_the_attempt() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    (job,) = await fleet.claim(leased)
    died = fleet.clock.monotonic()
    child.end(KILLED)
    while (await fleet.row(job)).state is State.RUNNING:
        await passing(0.01)
    assert fleet.clock.monotonic() - died < 0.5
    row = await fleet.row(job)
    assert (row.state, row.crashes, row.attempts[0].signal) == (State.AVAILABLE, 1, "SIGKILL")
    assert row.attempts[0].rescued_by == "supervisor host-1"
    assert [job] == [each for hint in fleet.transport.published for each in hint.ids]


@pytest.mark.virtual_time
async def test_l8_recovery_is_repeated_until_the_store_answers_and_delivers_the_workers_outcomes_first() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    done, interrupted = await fleet.claim(leased, 2)
    active = next(active for active in await fleet.memory.held(leased.lease) if active.id == done)
    fleet.store.is_out = True
    child.far.say(messages.UndeliveredOutcomes((finish(active, Done(b"42"), jitter=0.0),)))
    child.end(KILLED)
    await passing(300)
    assert (await fleet.row(done)).state is State.RUNNING
    fleet.store.is_out = False
    await passing(TIMING.beat / 2)
    rows = [await fleet.row(job) for job in (done, interrupted)]
    assert [(row.state, row.crashes) for row in rows] == [(State.COMPLETED, 0), (State.AVAILABLE, 1)]


@pytest.mark.virtual_time
async def test_l2_a_cancellation_raised_by_the_store_ends_neither_the_start_nor_the_recovery_of_a_worker() -> None:
    fleet = Fleet()
    fleet.store.cancel("open_lease")
    child = await fleet.spawned()
    child.far.say(HELLO)
    leased = await child.far.hear(messages.LeaseGranted)
    fleet.store.cancel("end_lease")
    child.end(KILLED)
    await until(lambda: fleet.store.calls.count("end_lease") == 2)
    await passing(1)
    assert leased.lease not in {view.id for view in await fleet.memory.workers()}
    assert not fleet.running.done()


@pytest.mark.virtual_time
async def test_l8_a_worker_that_died_past_its_deadline_in_an_outage_charges_no_job() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    (job,) = await fleet.claim(leased)
    fleet.store.is_out = True
    await passing(TIMING.ttl)
    child.end(KILLED)
    await passing(10)
    fleet.store.is_out = False
    await passing(TIMING.beat / 2)
    row = await fleet.row(job)
    assert (row.state, row.crashes) == (State.AVAILABLE, 0)


@pytest.mark.virtual_time
async def test_a_worker_whose_jobs_are_being_recovered_is_not_judged_by_its_supervisor() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    (done,) = await fleet.claim(leased)
    (active,) = await fleet.memory.held(leased.lease)
    child.far.say(messages.UndeliveredOutcomes((finish(active, Done(), jitter=0.0),)))
    assert fleet.supervisor._own_leases() == {leased.lease}
    fleet.store.fail("exchange", times=1_000_000)
    child.end(KILLED)
    await passing(5 * TIMING.ttl)
    assert fleet.log.of("lease.ended") == []
    fleet.store.clear_faults()
    await passing(TIMING.beat / 2)
    assert [fields["reason"] for fields in fleet.log.of("lease.ended")] == ["crashed"]
    assert (await fleet.row(done)).state is State.COMPLETED


@pytest.mark.virtual_time
async def test_a_worker_that_died_before_it_had_a_lease_needs_no_recovery() -> None:
    fleet = Fleet()
    (await fleet.spawned()).end(KILLED)
    await passing(10)
    assert fleet.store.calls == []


# the end


@pytest.mark.virtual_time
async def test_l7_draining_flags_the_lease_gives_the_grace_keeps_beating_and_ends_with_exit_code_0() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    await passing(1)
    fleet.supervisor.drain()
    assert (await child.far.hear(messages.Drain)).grace == SETTINGS.grace
    await passing(0.1)
    (lease,) = await fleet.memory.workers()
    assert lease.is_draining
    await passing(SETTINGS.grace - 1)
    assert (await fleet.memory.workers())[0].overdue < -TIMING.ttl + TIMING.beat + 0.1
    child.end(Exit(code=0))
    assert await fleet.running == 0
    assert len(fleet.host.spawned) == 1
    assert await fleet.memory.workers() == ()
    assert fleet.transport.is_closed
    assert fleet.log.of("lease.ended") == [{"lease": leased.lease, "worker": leased.worker, "reason": "closed", "signal": None}]


@pytest.mark.virtual_time
async def test_l7_a_worker_that_an_operator_drains_gets_the_grace_and_no_successor_while_the_others_go_on() -> None:
    fleet = Fleet(processes=2)
    (child, leased), (other, _) = await fleet.ready(), await fleet.ready()
    (job,) = await fleet.claim(leased)
    assert await fleet.memory.request_drain(leased.lease)
    assert (await child.far.hear(messages.Drain)).grace == SETTINGS.grace
    child.end(KILLED)
    await until(lambda: len(fleet.supervisor.workers) == 1)
    await passing(60)
    assert (fleet.host.children.empty(), fleet.running.done()) == (True, False)
    row = await fleet.row(job)
    assert (row.state, row.crashes) == (State.AVAILABLE, 0)
    await fleet.memory.request_drain(fleet.supervisor.workers[0].lease.id)  # type: ignore[union-attr]
    await other.far.hear(messages.Drain)
    other.end(Exit(code=0))
    assert await fleet.running == 0
    assert fleet.supervisor.slots == 0
    assert [event.get("reason") for event in fleet.log.of("worker.draining")][:2] == ["an operator asked for it"] * 2


@pytest.mark.virtual_time
async def test_a_second_drain_shortens_the_grace_and_code_that_does_not_stop_is_killed() -> None:
    fleet = Fleet(grace=3600.0)
    child, leased = await fleet.ready()
    beside(answer_pings(child))
    (job,) = await fleet.claim(leased)
    fleet.supervisor.drain()
    await passing(100)
    fleet.supervisor.drain()
    asked = fleet.clock.monotonic()
    assert await fleet.running == 0
    assert fleet.clock.monotonic() - asked <= TIMING.margin + 2
    assert child.kills == 1
    row = await fleet.row(job)
    assert (row.state, row.crashes) == (State.AVAILABLE, 0)


@pytest.mark.virtual_time
async def test_a_second_drain_sends_the_worker_a_grace_of_zero() -> None:
    fleet = Fleet(grace=3600.0)
    child, _ = await fleet.ready()
    fleet.supervisor.drain()
    fleet.supervisor.drain()
    await turns()
    assert [message.grace for message in child.far.received() if isinstance(message, messages.Drain)] == [3600.0, 0.0]


def test_a_drain_kills_a_worker_without_a_lease_also_one_that_is_being_spawned() -> None:
    async def test() -> None:
        fleet = Fleet()
        child = await fleet.spawned()
        fleet.supervisor.drain()
        assert await fleet.running == 0
        assert child.kills == 1

    async def late() -> None:
        fleet = Fleet()
        fleet.host.may_spawn.clear()
        await turns()
        fleet.supervisor.drain()
        fleet.host.may_spawn.set()
        assert await fleet.running == 0
        assert [child.kills for child in fleet.host.spawned] == [1]

    run_virtual(test())
    run_virtual(late())


@pytest.mark.virtual_time
async def test_l3_a_worker_that_hangs_before_its_first_message_is_killed_and_replaced() -> None:
    fleet = Fleet()
    hanging = await fleet.spawned()
    await passing(START_TIMEOUT - 1.0)
    assert hanging.kills == 0
    await passing(2.0)
    assert hanging.kills == 1
    assert fleet.log.of("worker.killed") == [{"worker": "100", "reason": "not started within 120 s"}]
    child, _ = await fleet.ready()
    assert child is not hanging


@pytest.mark.virtual_time
async def test_a_worker_that_waits_for_the_store_or_for_its_lifespan_is_not_taken_for_hanging() -> None:
    fleet = Fleet()
    await fleet.ready()
    fleet.supervisor._options = structs.replace(fleet.supervisor._options, processes=2)
    waiting = beside(fleet.supervisor._keep_slot_filled())
    fleet.store.is_out = True
    child = await fleet.spawned()
    child.far.say(HELLO)
    await passing(START_TIMEOUT * 2)
    fleet.store.is_out = False
    await child.far.hear(messages.LeaseGranted)
    await passing(START_TIMEOUT * 2)
    assert (child.kills, waiting.done()) == (0, False)


@pytest.mark.virtual_time
async def test_a_store_call_that_hangs_does_not_stop_the_watch_of_workers() -> None:
    fleet = Fleet(until_empty=True)
    child, _ = await fleet.ready()
    beside(obey(child, lambda: True))
    gate = fleet.store.hold("next_due")
    await gate.entered.wait()
    async with asyncio.timeout(TIMING.ttl):
        assert await fleet.running == 0
    assert [event["operation"] for event in fleet.log.of("store.unavailable")] == ["watch"]


@pytest.mark.virtual_time
async def test_the_supervisor_ends_only_after_it_recovered_the_jobs_of_dead_workers() -> None:
    fleet = Fleet()
    child, leased = await fleet.ready()
    (job,) = await fleet.claim(leased)
    fleet.supervisor.drain()
    fleet.store.fail("end_lease", times=5)
    child.end(KILLED)
    assert await fleet.running == 0
    assert (await fleet.row(job)).state is State.AVAILABLE


@pytest.mark.virtual_time
async def test_a_drain_while_the_store_is_down_ends_within_31_seconds() -> None:
    fleet = Fleet()
    child, _ = await fleet.ready()
    fleet.store.is_out = True
    fleet.supervisor.drain()
    await child.far.hear(messages.Drain)
    child.end(Exit(code=0))
    asked = fleet.clock.monotonic()
    assert await fleet.running == 0
    assert fleet.clock.monotonic() - asked <= 31


@pytest.mark.virtual_time
async def test_until_empty_ends_only_when_all_workers_have_reported_twice_that_they_are_idle() -> None:
    fleet = Fleet(processes=2, until_empty=True)
    idle = [False, True]
    for number in range(2):
        child, _ = await fleet.ready()
        beside(obey(child, lambda number=number: idle[number]))  # type: ignore[misc]
    await passing(60)
    assert not fleet.running.done()
    idle[:] = [True, False]
    await passing(60)
    assert not fleet.running.done()
    idle[:] = [True, True]
    assert await fleet.running == 0


@pytest.mark.virtual_time
async def test_until_empty_waits_for_workers_that_answer_slowly() -> None:
    fleet = Fleet(until_empty=True)
    child, _ = await fleet.ready()

    async def slow() -> None:
        while (data := await child.far.receive()) is not None:
            match messages.decode(data):
                case messages.Ping():
                    await passing(0.7)
                    child.far.say(messages.Pong(LoopClock().monotonic(), True))
                case messages.Drain():
                    child.end(Exit(code=0))

    beside(slow())
    started = fleet.clock.monotonic()
    assert await fleet.running == 0
    assert fleet.clock.monotonic() - started < 10


def test_until_empty_does_not_end_while_a_job_moves_from_one_worker_to_another() -> None:
    async def test() -> None:
        fleet = Fleet(processes=2, until_empty=True)
        workers = [await fleet.ready(), await fleet.ready()]
        holder, rounds = 0, list[int]()

        async def serve(number: int, child: MemoryChild) -> None:
            nonlocal holder
            while True:
                await child.far.hear(messages.Ping)
                child.far.say(messages.Pong(LoopClock().monotonic(), holder != number))
                rounds.append(number)
                if len(rounds) == 1:
                    holder = number  # it takes the job right after it has reported that it is idle

        holder = 2
        for number, (child, _) in enumerate(workers):
            beside(serve(number, child))
        await passing(30)
        assert not fleet.running.done()

    run_virtual(test())


@pytest.mark.virtual_time
async def test_dump_stacks_returns_the_stacks_of_all_workers() -> None:
    fleet = Fleet(processes=2)
    leases = [(await fleet.ready())[1] for _ in range(2)]
    assert fleet.supervisor.dump_stacks() == {leased.worker: "its stacks" for leased in leases}


class LateWarner(Flaky):
    """A store that knows its warnings once it has answered."""

    @property
    def capabilities(self) -> Any:
        has_answered = "open_lease" in self.calls
        found = {"warnings": ("the disk is slow",), "notices": ("the library is old",)} if has_answered else {}
        return structs.replace(super().capabilities, **found)


@pytest.mark.virtual_time
async def test_warnings_that_a_store_has_once_it_has_answered_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="holdfast")
    fleet = Fleet(processes=2)
    fleet.store = LateWarner(fleet.memory)
    for _ in range(2):
        await fleet.ready()
    assert fleet.log.of("store.warned") == [{"warning": "the disk is slow"}]
    assert [record.levelname for record in caplog.records if record.getMessage() == "the library is old"] == ["INFO"]
