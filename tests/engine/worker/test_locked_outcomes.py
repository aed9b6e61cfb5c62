"""When another session has locked one row, its job waits for that session; no other job, lease or outcome does."""

import asyncio

import pytest

from holdfast._core.answers import Answer
from holdfast._core.job import State
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._engine.supervisor import recovery
from holdfast._engine.worker import locked_outcomes as locked
from holdfast._ports.host import Exit
from holdfast.errors import ConfigurationError, StoreBusy, StoreUnavailable
from tests.engine.locks import LockedMemory
from tests.engine.supervisor.test_recovery import CRASH, Site
from tests.engine.supervisor.test_supervisor import Fleet, passing
from tests.engine.support import LEASE, OTHER, TIMING, Bench, turns, until
from tests.engine.worker.test_progress_writer import A, B, WriterBench, active_job
from tests.event_loops import run_virtual

NOTHING = b"{}"


async def quick() -> str:
    return "done"


class LockedBench(Bench):
    """A worker's engine beside a session that keeps locks."""

    def __init__(self) -> None:
        super().__init__(quick)
        self.memory = self.store.store = LockedMemory(self.clock)


class LockedSite(Site):
    """Recovery beside a session that keeps locks."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = self.store.store = LockedMemory(self.clock)


class LockedFleet(Fleet):
    """A supervisor beside a session that keeps locks."""

    def __init__(self, *, processes: int = 1) -> None:
        super().__init__(processes=processes)
        self.memory = self.store.store = LockedMemory(self.store_clock)


# outcomes


async def test_l11_an_outcome_whose_job_is_locked_is_sent_again_and_delays_no_sibling() -> None:
    bench = LockedBench()
    stuck, free = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended(2)
    bench.memory.jobs = frozenset({stuck})
    wait = await bench.exchange.step()
    assert (await bench.row(free)).state is State.COMPLETED
    assert (await bench.row(stuck)).state is State.RUNNING
    assert [each.job for each in bench.exchange.undelivered] == [stuck]
    assert not bench.exchange.is_delivered
    assert 0 < wait <= locked.SHORTEST_PAUSE
    bench.memory.jobs = frozenset()
    bench.clock.advance(wait)
    await bench.exchange.step()
    assert (await bench.row(stuck)).state is State.COMPLETED
    assert bench.exchange.is_delivered
    assert bench.log.of("job.lost") == bench.log.of("job.missing") == []
    assert bench.log.of("job.rescued") == []


async def test_l11_a_locked_outcome_is_sent_less_and_less_often_and_reported_to_operators() -> None:
    bench = LockedBench()
    (stuck,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.memory.jobs = frozenset({stuck})
    waits = []
    for _ in range(12):
        waits.append(await bench.exchange.step())
        bench.clock.advance(waits[-1])
    assert waits == sorted(waits)
    assert waits[-1] == 1.0, "the poll interval"
    assert {each["operation"] for each in bench.log.of("store.busy")} == {"exchange"}
    assert bench.log.of("store.unavailable") == []


async def test_l11_outcomes_found_locked_later_do_not_delay_those_that_wait() -> None:
    bench = LockedBench()
    first, *others = await bench.open(*[("quick", NOTHING)] * 8)
    await bench.exchange.step()
    await bench.until_ended(8)
    waiting = {ended.claim.job.id: ended for ended in bench.ended}
    clock, put_off = bench.clock, locked.LockedOutcomes(bench.clock.monotonic, 1.0, bench.log.events)
    put_off.put_off([waiting[first]], [Answer.BUSY])
    for other in others:
        clock.advance(locked.SHORTEST_PAUSE / 2)
        put_off.put_off([waiting[other]], [Answer.BUSY])
        if first in {ended.claim.job.id for ended in put_off.due()}:
            break
    else:
        raise AssertionError("the first outcome is never sent again")
    assert put_off.remaining() <= locked.SHORTEST_PAUSE


async def test_s3_an_audit_finds_a_job_whose_outcome_is_locked_neither_lost_nor_abandoned() -> None:
    bench = LockedBench()
    (stuck,) = await bench.open(("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended()
    bench.memory.jobs = frozenset({stuck})
    await bench.exchange.step()
    await bench.exchange.audit()
    assert [(each.job, each.to) for each in bench.exchange.undelivered] == [(stuck, State.COMPLETED)]


# reports


class LockedReports:
    """A store's ``report`` in which job ``A`` is locked and job ``B`` is lost."""

    async def report(self, updates):  # type: ignore[no-untyped-def]
        raise StoreBusy("report: 1 jobs are locked", frozenset({A}), frozenset({B}))


async def test_l11_a_checkpoint_of_a_locked_job_waits_and_its_neighbour_is_answered() -> None:
    bench = WriterBench()
    bench.writer._store = LockedReports()  # type: ignore[assignment]
    stuck = asyncio.ensure_future(bench.writer.checkpoint(active_job(1), b"1"))
    lost = asyncio.ensure_future(bench.writer.checkpoint(active_job(2), b"2"))
    await turns()
    assert await bench.step() > 0
    await asyncio.wait({lost})
    assert [job for job, _ in bench.losses] == [B]
    assert isinstance(lost.exception(), BaseException)
    assert not stuck.done()
    assert await bench.step() > 0, "an update that waits for a locked job is not sent again at once"
    bench.writer._store = bench.store  # type: ignore[assignment]
    bench.clock.advance(1.0)
    await bench.step()
    await stuck
    assert bench.store.reported == [{A: {"checkpoint": b"1"}}]


async def test_a_lock_of_a_whole_table_is_not_an_answer_about_any_job() -> None:
    class Refusing:
        async def report(self, updates):  # type: ignore[no-untyped-def]
            raise StoreBusy("report: canceling statement due to lock timeout")

    bench = WriterBench()
    bench.writer._store = Refusing()  # type: ignore[assignment]
    bench.progress(active_job(1), stage="half")
    with pytest.raises(StoreBusy):
        await bench.step()
    bench.writer._store = bench.store  # type: ignore[assignment]
    await bench.step()
    assert bench.store.reported == [{A: {"stage": "half"}}]


# rescue


async def test_l11_a_locked_job_of_a_dead_worker_stays_and_all_behind_it_move(monkeypatch: pytest.MonkeyPatch) -> None:
    site = LockedSite()
    jobs = await site.claim(3)
    monkeypatch.setattr(recovery, "HOLDS_PER_MOVE", 1)
    site.memory.jobs = frozenset(jobs[:1])
    rescued = await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
    assert [each.id for each in rescued] == jobs[1:]
    assert (await site.row(jobs[0])).state is State.RUNNING
    (busy,) = site.log.of("store.busy")
    assert (busy["operation"], busy["jobs"]) == ("rescue", 1)
    site.memory.jobs = frozenset()
    assert [each.id for each in await site.recovery.step()] == jobs[:1]


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [(StoreBusy("a lock"), True), (ConfigurationError(["a right"]), True), (StoreUnavailable("no"), False)],
)
async def test_l11_a_lease_that_cannot_be_ended_stops_no_other_lease_unless_the_store_is_away(
    error: Exception, goes_on: bool
) -> None:
    site = LockedSite()
    await site.claim(1)
    (other,) = await site.claim(1, OTHER)
    await site.in_contact(TIMING.ttl + 1)
    end_lease = site.memory.end_lease

    async def end(lease, why, **more):  # type: ignore[no-untyped-def]
        if lease == LEASE.id:
            raise error
        return await end_lease(lease, why, **more)

    site.memory.end_lease = end  # type: ignore[method-assign]
    if goes_on:
        assert [each.id for each in await site.recovery.step()] == [other]
    else:
        with pytest.raises(StoreUnavailable):
            await site.recovery.step()


async def test_l11_a_locked_lease_is_passed_by_and_rescued_once_it_is_free() -> None:
    site = LockedSite()
    (stuck,) = await site.claim(1)
    (other,) = await site.claim(1, OTHER)
    await site.in_contact(TIMING.ttl + 1)
    site.memory.leases = frozenset({LEASE.id})
    assert [each.id for each in await site.recovery.step()] == [other]
    site.memory.leases = frozenset()
    assert [each.id for each in await site.recovery.step()] == [stuck]


async def test_l8_an_outcome_that_a_dead_worker_left_is_kept_while_its_job_is_locked() -> None:
    site = LockedSite()
    done, cut = await site.claim(2)
    held = next(each for each in await site.memory.held(LEASE.id) if each.id == done)
    site.memory.jobs = frozenset({done})
    outcome = finish(held, Done(b"42"), jitter=0.0)
    assert [each.id for each in await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=[outcome])] == [cut]
    assert await site.recovery.step() == []
    site.memory.jobs = frozenset()
    assert await site.recovery.step() == []
    row = await site.row(done)
    assert (row.state, row.result, row.crashes) == (State.COMPLETED, b"42", 0)


async def test_l8_locked_outcomes_of_two_workers_that_die_at_once_are_both_kept() -> None:
    site = LockedSite()
    (first,), (second,) = await site.claim(1), await site.claim(1, OTHER)
    exchange = site.memory.exchange

    async def slowly(transitions, request=None):  # type: ignore[no-untyped-def]
        answer = await exchange(transitions, request)
        await turns()
        return answer

    site.memory.exchange = slowly  # type: ignore[method-assign]
    site.memory.jobs = frozenset({first, second})
    recoveries = []
    for lease in (LEASE, OTHER):
        (held,) = await site.memory.held(lease.id)
        outcome = finish(held, Done(b"42"), jitter=0.0)
        recoveries.append(site.recovery.end(lease.id, lease.worker, CRASH, undelivered=[outcome]))
    assert await asyncio.gather(*recoveries) == [[], []]
    site.memory.jobs = frozenset()
    assert await site.recovery.step() == []
    rows = [await site.row(job) for job in (first, second)]
    assert [(row.state, row.result, row.crashes) for row in rows] == [(State.COMPLETED, b"42", 0)] * 2


# contact


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [(StoreBusy("a lock"), False), (StoreUnavailable("no"), True), (TimeoutError(), True)],
)
def test_l11_a_lock_time_out_is_an_answer_and_the_amnesty_goes_on_elapsing(error: Exception, is_lost: bool) -> None:
    async def test() -> None:
        fleet = LockedFleet()
        await fleet.ready()
        refused = 0

        async def workers():  # type: ignore[no-untyped-def]
            nonlocal refused
            refused += 1
            raise error

        fleet.memory.workers = workers  # type: ignore[method-assign]
        contact = fleet.supervisor._contact
        broken = []
        broke = contact.lost
        contact.lost = lambda: (broken.append(1), broke())[1]  # type: ignore[method-assign]
        await until(lambda: refused > 1)
        assert bool(broken) is is_lost
        assert ("store.unavailable" in fleet.log.names()) is (not isinstance(error, StoreBusy))

    run_virtual(test())


@pytest.mark.virtual_time
async def test_l11_a_locked_lease_is_neither_renewed_nor_lost_and_its_siblings_are_renewed() -> None:
    fleet = LockedFleet(processes=2)
    (_, stuck), (_, free) = await fleet.ready(), await fleet.ready()
    fleet.memory.leases = frozenset({stuck.lease})
    await passing(2 * TIMING.beat)
    handles = {handle.lease.id: handle for handle in fleet.supervisor.workers if handle.lease is not None}
    assert not handles[stuck.lease].is_gone
    views = {view.id: view for view in await fleet.memory.workers()}
    assert views[free.lease].overdue < views[stuck.lease].overdue
    fleet.memory.leases = frozenset()
    await passing(TIMING.beat)
    assert fleet.log.of("store.clock_stepped") == []


# soon enough


@pytest.mark.virtual_time
async def test_l1_a_job_that_its_dead_worker_had_locked_is_available_again_within_a_second() -> None:
    fleet = LockedFleet()
    child, leased = await fleet.ready()
    (job,) = await fleet.claim(leased)
    fleet.memory.jobs = frozenset({job})  # The worker's last write has locked it; the server is still carrying it out.
    child.end(Exit(signal="SIGKILL"))
    await passing(0.2)
    assert (await fleet.row(job)).state is State.RUNNING
    fleet.memory.jobs = frozenset()
    await passing(0.7)
    assert (await fleet.row(job)).state is State.AVAILABLE
