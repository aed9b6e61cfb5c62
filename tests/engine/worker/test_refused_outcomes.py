"""When the store refuses the outcome of one job, that job waits and its worker goes on with all others."""

from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import pytest

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, rescue
from holdfast._core.requests import AttemptNote, ClaimRequest
from holdfast._engine import messages
from holdfast._engine.tasks.registry import define
from holdfast._engine.worker.refused_outcomes import PAUSES
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.stores.memory import MemoryStore
from tests.engine.support import LEASE, OTHER, SETTINGS, TIMING, Bench, until
from tests.engine.worker.test_exchange import take
from tests.engine.worker.test_worker import USABLE, Office, passing
from tests.event_loops import beside

NOTHING = b"{}"


async def quick() -> str:
    return "done"


class RefusingMemory(MemoryStore):
    """A store with triggers: they refuse every write with an outcome of one of ``jobs``, with ``refuses_claims`` every claim,
    and the late results of ``notes``."""

    jobs: frozenset[UUID] = frozenset()
    refuses_claims = False
    notes: frozenset[UUID] = frozenset()

    async def annotate(self, notes: Sequence[AttemptNote]) -> None:
        if self.notes & {each.job for each in notes}:
            raise StoreRefused("annotate: the trigger refuses")
        await super().annotate(notes)

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        if self.jobs & {each.job for each in transitions} or (self.refuses_claims and request is not None):
            raise StoreRefused("exchange: the trigger refuses")
        return await super().exchange(transitions, request)


class RefusingBench(Bench):
    """A worker's engine in front of a store with such a trigger."""

    def __init__(self, *, slots: int = 10) -> None:
        super().__init__(quick, slots=slots)
        self.memory = self.store.store = RefusingMemory(self.clock)

    async def refused(self, *, others: int = 0) -> list[UUID]:
        """Run one job whose outcome the store refuses and others that complete; return their ids."""
        jobs = await self.open(*[("quick", NOTHING)] * (1 + others))
        self.memory.jobs = frozenset(jobs[:1])
        await self.exchange.step()
        await self.until_ended(1 + others)
        await self.exchange.step()
        return jobs


async def test_l11_an_outcome_that_the_store_refuses_delays_no_sibling_and_no_claim() -> None:
    bench = RefusingBench(slots=3)
    first, *others = await bench.open(*[("quick", NOTHING)] * 7)
    bench.memory.jobs = frozenset({first})
    for _ in range(20):
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
    assert [(await bench.row(job)).state for job in others] == [State.COMPLETED] * 6
    assert (await bench.row(first)).state is State.RUNNING
    assert [each.job for each in bench.exchange.undelivered] == [first]
    assert not bench.exchange.is_delivered
    assert bench.log.of("job.lost") == bench.log.of("job.missing") == []
    (refusal,) = bench.log.of("store.refused")
    assert (refusal["operation"], refusal["job"], refusal["failures"]) == ("exchange", first, 1)
    assert "the trigger refuses" in refusal["error"]


async def test_l11_a_refused_outcome_is_sent_by_itself_and_less_and_less_often_until_it_is_accepted() -> None:
    bench = RefusingBench()
    (stuck,) = await bench.refused()
    asked, exchange = [], bench.memory.exchange

    async def counted(transitions, request=None):  # type: ignore[no-untyped-def]
        if stuck in {each.job for each in transitions}:
            asked.append((bench.clock.monotonic(), len(transitions), request))
        return await exchange(transitions, request)

    bench.memory.exchange = counted  # type: ignore[method-assign]
    for _ in range(400):
        bench.clock.advance(await bench.exchange.step())
        bench.beat()
    assert {(count, request) for _, count, request in asked} == {(1, None)}
    pauses = [later - earlier for (earlier, *_), (later, *_) in pairwise(asked)]
    assert len(pauses) > 8
    assert pauses[0] < 2 * PAUSES.delays[0] + 1
    assert pauses[-1] <= PAUSES.cap * (1 + PAUSES.spread) + 1
    assert pauses[-1] > 4 * pauses[1] > pauses[1] > 0
    assert [each["failures"] for each in bench.log.of("store.refused")] == list(range(1, len(asked) + 2))
    bench.memory.jobs = frozenset()
    bench.clock.advance(PAUSES.cap * 2)
    bench.beat()
    await bench.exchange.step()
    assert (await bench.row(stuck)).state is State.COMPLETED
    assert bench.exchange.is_delivered
    assert bench.log.of("job.lost") == bench.log.of("job.rescued") == []


async def test_refused_outcomes_stop_claims_once_they_are_twice_as_many_as_slots() -> None:
    bench = RefusingBench(slots=2)
    jobs = await bench.open(*[("quick", NOTHING)] * 7)
    bench.memory.jobs = frozenset(jobs)
    for _ in range(10):
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
    assert len(bench.ended) == len(await bench.memory.held(LEASE.id)) == 4
    assert {each["job"] for each in bench.log.of("store.refused")} == set(jobs[:4])
    bench.memory.jobs = frozenset()
    for _ in range(10):
        bench.clock.advance(TIMING.beat)
        bench.beat()
        await bench.memory.beat([LEASE.id])
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
    assert [(await bench.row(job)).state for job in jobs] == [State.COMPLETED] * 7


async def test_l11_a_refused_outcome_of_a_worker_with_one_slot_keeps_no_other_job_from_running() -> None:
    bench = RefusingBench(slots=1)
    stuck, free = await bench.open(*[("quick", NOTHING)] * 2)
    bench.memory.jobs = frozenset({stuck})
    for _ in range(10):
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
    assert (await bench.row(free)).state is State.COMPLETED


async def test_l11_refused_outcomes_are_sent_one_per_step_and_delay_no_claim() -> None:
    bench = RefusingBench(slots=10)
    stuck = await bench.open(*[("quick", NOTHING)] * 8)
    bench.memory.jobs = frozenset(stuck)
    for _ in range(8):
        await bench.exchange.step()
        await until(lambda: not bench.executor.running)
    bench.clock.advance(60.0)
    bench.beat()
    before = len(bench.log.of("store.refused"))
    await bench.exchange.step()
    assert len(bench.log.of("store.refused")) == before + 1


async def test_a_refused_outcome_among_many_is_found_by_halves() -> None:
    bench = RefusingBench(slots=64)
    jobs = await bench.open(*[("quick", NOTHING)] * 64)
    bench.memory.jobs = frozenset({jobs[37]})
    await bench.exchange.step()
    await bench.until_ended(64)
    bench.store.calls.clear()
    await bench.exchange.step()
    assert bench.store.calls.count("exchange") == 2 + 2 * 6
    assert sum([(await bench.row(job)).state is State.COMPLETED for job in jobs]) == 63
    assert [each.job for each in bench.exchange.undelivered] == [jobs[37]]


async def test_a_refused_claim_is_raised_and_outcomes_are_settled_without_it() -> None:
    bench = RefusingBench()
    jobs = await bench.open(("quick", NOTHING), ("quick", NOTHING))
    await bench.exchange.step()
    await bench.until_ended(2)
    bench.memory.refuses_claims, bench.memory.jobs = True, frozenset(jobs[:1])
    assert await bench.exchange.step() == 0.0
    assert (await bench.row(jobs[1])).state is State.COMPLETED
    with pytest.raises(StoreRefused):
        await bench.exchange.step()
    assert [each.job for each in bench.exchange.undelivered] == jobs[:1]


async def test_s15_an_unreachable_store_has_not_refused_an_outcome() -> None:
    bench = RefusingBench()
    (stuck,) = await bench.refused()
    bench.clock.advance(PAUSES.cap)
    bench.beat()
    bench.store.is_out = True
    with pytest.raises(StoreUnavailable):
        await bench.exchange.step()
    assert [each.job for each in bench.exchange.undelivered] == [stuck]
    assert len(bench.log.of("store.refused")) == 1
    bench.store.is_out, bench.memory.jobs = False, frozenset()
    await bench.exchange.step()
    assert (await bench.row(stuck)).state is State.COMPLETED


async def test_s3_an_audit_finds_a_job_whose_outcome_is_refused_neither_lost_nor_abandoned() -> None:
    bench = RefusingBench()
    (stuck,) = await bench.refused()
    await bench.exchange.audit()
    assert [(each.job, each.to) for each in bench.exchange.undelivered] == [(stuck, State.COMPLETED)]


async def test_s1_a_refused_outcome_overwrites_no_later_owner() -> None:
    bench = RefusingBench()
    (stuck,) = await bench.refused()
    bench.memory.jobs = frozenset()
    await take(bench, stuck)
    bench.clock.advance(PAUSES.cap)
    bench.beat()
    await bench.exchange.step()
    assert (await bench.row(stuck)).state is State.RUNNING
    assert [active.id for active in await bench.memory.held(OTHER.id)] == [stuck]
    assert [each["job"] for each in bench.log.of("job.lost")] == [stuck]
    assert bench.exchange.is_delivered


class RefusingOffice(Office):
    """A worker in front of a store with such a trigger."""

    def __init__(self) -> None:
        super().__init__(define(quick, max_crashes=2))
        self.memory = self.store.store = RefusingMemory(self.clock)

    async def open(self, *, is_isolated: bool = False) -> None:
        await self.memory.open_lease(LEASE)
        self.far.say(messages.LeaseGranted(LEASE.id, LEASE.worker, self.clock.monotonic() + USABLE, is_isolated))
        await self.far.hear(messages.Ready)
        beside(self.keep_beating())

    async def refuse(self) -> UUID:
        (job,) = await self.enqueue("quick")
        self.memory.jobs = frozenset({job})
        await until(lambda: self.log.of("store.refused"))
        return job


@pytest.mark.virtual_time
async def test_l11_a_worker_with_a_refused_outcome_goes_on_and_reports_that_the_store_answers() -> None:
    office = RefusingOffice()
    await office.open()
    stuck = await office.refuse()
    for _ in range(5):
        await passing(TIMING.ttl)
        (job,) = await office.enqueue("quick")
        await passing(2 * SETTINGS.poll_interval)
        assert await office.state(job) is State.COMPLETED
    pongs = office.received(messages.Pong)
    assert office.clock.monotonic() - pongs[-1].answered < TIMING.ttl
    assert await office.state(stuck) is State.RUNNING
    assert {each["job"] for each in office.log.of("store.refused")} == {stuck}


@pytest.mark.virtual_time
async def test_l7_a_refused_outcome_keeps_no_worker_from_ending_within_its_grace() -> None:
    office = RefusingOffice()
    await office.open()
    stuck = await office.refuse()
    office.far.received()
    started = office.clock.monotonic()
    office.far.say(messages.Drain(SETTINGS.grace))
    await office.running
    assert office.clock.monotonic() - started <= SETTINGS.grace + 0.1
    left = office.received(messages.UndeliveredOutcomes)[-1].transitions
    assert [(each.job, each.to) for each in left] == [(stuck, State.COMPLETED)]
    assert [active.id for active in await office.memory.held(LEASE.id)] == [stuck]
    assert await office.end_reason() is None, "its supervisor delivers the outcomes that are left, and ends the lease then"


@pytest.mark.virtual_time
async def test_s9_a_worker_for_an_isolated_attempt_keeps_a_refused_outcome_until_it_is_accepted() -> None:
    office = RefusingOffice()
    (job,) = await office.enqueue("quick")
    await crash(office, job)
    office.memory.jobs = frozenset({job})
    await office.open(is_isolated=True)
    await office.clock.sleep(10 * SETTINGS.grace)
    assert not office.running.done()
    assert (await office.row(job)).state is State.RUNNING
    office.memory.jobs = frozenset()
    await office.running
    assert (await office.row(job)).state is State.COMPLETED
    assert (await office.row(job)).attempt == 2


async def crash(office: Office, job: UUID) -> None:
    """Let the job's worker die, so that its next attempt is isolated."""
    await office.memory.open_lease(OTHER)
    request = ClaimRequest(lease=OTHER.id, claim=UUID(int=99), tasks=office.registry.policies(), limit=1)
    (claim,) = (await office.memory.exchange([], request)).claims
    await office.memory.end_lease(OTHER.id, LeaseEnd(RescueReason.CRASHED))
    await office.memory.exchange([rescue(claim.job, LeaseEnd(RescueReason.CRASHED), jitter=0.0)])
    assert (claim.job.id, (await office.row(job)).crashes) == (job, 1)


async def test_l11_a_late_result_that_the_store_refuses_delays_no_other_and_no_claim() -> None:
    bench = RefusingBench()
    stuck, free = await bench.open(*[("quick", NOTHING)] * 2)
    bench.memory.notes = frozenset({stuck})
    await bench.exchange.step()
    for job in (stuck, free):
        await take(bench, job)
    await bench.until_ended(2)
    await bench.exchange.step()
    assert [(await bench.row(job)).attempts[0].late_result for job in (stuck, free)] == [None, b'"done"']
    asked = []
    for _ in range(4):
        bench.clock.advance(60.0)
        before = bench.store.calls.count("annotate")
        await bench.exchange.step()
        await bench.exchange.step()
        asked.append(bench.store.calls.count("annotate") - before)
    assert asked == [1, 1, 1, 1], "sent by itself, and not at once again"
    assert [refusal["failures"] for refusal in bench.log.of("store.refused")] == [1, 2, 3, 4, 5]
    assert not bench.exchange.is_delivered
    bench.memory.notes = frozenset()
    bench.clock.advance(60.0)
    await bench.exchange.step()
    assert (await bench.row(stuck)).attempts[0].late_result == b'"done"'
    assert bench.exchange.is_delivered


async def test_a_late_result_that_is_refused_by_itself_is_reported_once() -> None:
    bench = RefusingBench()
    (stuck,) = await bench.open(("quick", NOTHING))
    bench.memory.notes = frozenset({stuck})
    await bench.exchange.step()
    await take(bench, stuck)
    await bench.until_ended(1)
    await bench.exchange.step()
    assert [refusal["failures"] for refusal in bench.log.of("store.refused")] == [1]
