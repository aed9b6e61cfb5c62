"""Recovery takes jobs only from owners that have lost their right, and charges only the jobs that are to blame."""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import AttemptOutcome, NewJob, Reason, RescueReason, State
from holdfast._core.lifecycle import LeaseEnd, Transition, finish
from holdfast._core.member import Member
from holdfast._core.outcome import Done
from holdfast._core.policy import CrashPolicy, Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, IsolatedJobs, NewLease
from holdfast._core.timing import LeaseTiming
from holdfast._core.workflow import NewFlow, NewMember, gate_edges
from holdfast._engine.environment import Environment
from holdfast._engine.supervisor.recovery import HOLDS_PER_MOVE, MOST_REFUSALS, Contact, Recovery
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.settings import EVERY_KIND, RecoverySwitches
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from tests.engine.machines import MemoryHost, MemoryTransport
from tests.engine.support import LEASE, OTHER, PROCESS, TIMING, Flaky, Log, enqueue

AMNESTY = TIMING.beat + TIMING.margin
PLAIN = Policy()
CRASH = LeaseEnd(RescueReason.CRASHED, "SIGKILL")


class Site:
    """A store with workers that claimed jobs, and the recovery of a supervisor."""

    def __init__(
        self, host: MemoryHost | None = None, compare: Callable[[], object] | None = None, switches: RecoverySwitches = EVERY_KIND
    ) -> None:
        self.clock, self.chance, self.log = FakeClock(), FakeChance(), Log()
        self.memory = MemoryStore(self.clock)
        self.store = Flaky(self.memory)
        self.transport = MemoryTransport()
        self.contact = Contact(TIMING, self.clock.monotonic)
        self.own: set[UUID] = set()

        async def compare_clocks() -> None:
            assert compare is not None
            compare()

        self.recovery = Recovery(
            Environment(self.store, self.transport, self.clock, self.chance, self.log.events),
            self.contact,
            switches=switches,
            host=host,
            own=lambda: self.own,
            compare_clocks=compare_clocks if compare else None,
            by="supervisor web-1-42",
        )

    async def claim(self, jobs: int, lease: NewLease = LEASE, *, prefetch: int = 0, policy: Policy = PLAIN) -> list[UUID]:
        """Open a lease, enqueue jobs and claim them for it; return their ids."""
        await self.memory.open_lease(lease)
        made = await enqueue(self.memory, self.chance, *[("t", b"{}")] * (jobs + prefetch), policies={"t": policy})
        await self.claim_again(lease, jobs, prefetch=prefetch, policy=policy)
        return made

    async def claim_again(self, lease: NewLease, jobs: int = 1, *, prefetch: int = 0, policy: Policy = PLAIN) -> None:
        request = ClaimRequest(
            lease=lease.id,
            claim=self.chance.uuid4(),
            tasks={"t": policy},
            limit=jobs,
            prefetch=prefetch,
            isolated=IsolatedJobs.INCLUDE,
        )
        answer = await self.memory.exchange([], request)
        assert len(answer.claims) == jobs + prefetch

    async def row(self, job: UUID) -> JobRecord:
        row = await self.memory.get(job)
        assert row is not None
        return row

    async def in_contact(self, seconds: float) -> None:
        """Let time pass, in which the store answers the supervisor."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            self.contact.answered(self.clock.monotonic())
        self.clock.advance(seconds % 1)


# which leases are judged, and when


async def test_l1_jobs_of_an_expired_lease_return_charged_and_idle_workers_are_woken() -> None:
    site = Site()
    jobs = await site.claim(2)
    await site.in_contact(TIMING.ttl + 1)
    rescued = await site.recovery.step()
    assert [(each.id, each.task, each.reason, each.worker, each.attempt, each.to) for each in rescued] == [
        (job, "t", "expired", "worker-1", 1, State.AVAILABLE) for job in jobs
    ]
    row = await site.row(jobs[0])
    assert (row.state, row.crashes, row.attempts[0].outcome) == (State.AVAILABLE, 1, AttemptOutcome.CRASHED)
    assert row.attempts[0].rescued_by == "supervisor web-1-42"
    assert {job for hint in site.transport.published for job in hint.ids} == set(jobs)
    assert [fields["job"] for fields in site.log.of("job.rescued")] == jobs
    assert site.log.of("recovery.completed") == [
        {"worker": "worker-1", "reason": "expired", "jobs": 2, "by_reason": {"expired": 2}, "by_task": {"t": 2}}
    ]
    assert site.log.of("lease.ended") == [{"lease": LEASE.id, "worker": "worker-1", "reason": "expired", "signal": None}]


async def test_s5_a_renewed_lease_is_not_ended_even_when_its_jobs_are_old() -> None:
    site = Site()
    (job,) = await site.claim(1)
    for _ in range(1000):
        await site.in_contact(20)
        await site.memory.beat([LEASE.id])
    assert await site.recovery.step() == []
    assert (await site.row(job)).state is State.RUNNING


@pytest.mark.parametrize(("contact", "is_judged"), [(AMNESTY - 0.5, False), (AMNESTY, True)])
async def test_l3_no_lease_is_judged_before_the_amnesty_after_the_supervisors_start(contact: float, is_judged: bool) -> None:
    site = Site()
    await site.claim(1)
    site.clock.advance(100)
    site.contact = site.recovery._contact = Contact(TIMING, site.clock.monotonic)
    await site.in_contact(contact)
    assert bool(await site.recovery.step()) is is_judged


@pytest.mark.parametrize("gap", ["silence", "broken", "slow"])
async def test_l3_a_gap_in_contact_with_the_store_starts_a_new_amnesty(gap: str) -> None:
    site = Site()
    await site.claim(1)
    await site.in_contact(50)
    if gap == "silence":
        site.clock.advance(TIMING.beat + TIMING.margin / 2 + 0.1)
    elif gap == "broken":
        site.contact.lost()
    else:
        sent = site.clock.monotonic()
        site.clock.advance(TIMING.beat + TIMING.margin / 2 + 0.1)
        site.contact.answered(sent)
    assert await site.recovery.step() == []
    await site.in_contact(AMNESTY - 0.5)
    assert await site.recovery.step() == []
    await site.in_contact(1)
    assert len(await site.recovery.step()) == 1


async def test_the_ordinary_rhythm_of_beats_does_not_count_as_a_gap() -> None:
    site = Site()
    since = site.contact.since
    for _ in range(20):
        site.clock.advance(TIMING.beat)
        site.contact.answered(site.clock.monotonic())
    assert site.contact.since == since
    assert not site.contact.is_silent()
    site.clock.advance(TIMING.beat + TIMING.margin / 2 + 0.1)
    assert site.contact.is_silent()


async def test_the_amnesty_is_that_of_the_lease_not_of_the_judging_supervisor() -> None:
    site = Site()
    slow = structs.replace(LEASE, timing=LeaseTiming(ttl=300.0, beat=60.0, margin=50.0))
    await site.claim(1, slow)
    site.clock.advance(400)
    site.contact.answered(site.clock.monotonic())
    await site.in_contact(100)
    assert await site.recovery.step() == []
    await site.in_contact(10)
    assert len(await site.recovery.step()) == 1


SHORT = LeaseTiming.of("5s")


@pytest.mark.parametrize("silence", ["none answered", "a slow answer"])
async def test_l3_a_silence_in_which_a_shorter_lease_expired_gives_it_an_amnesty(silence: str) -> None:
    site = Site()
    (job,) = await site.claim(1, structs.replace(LEASE, timing=SHORT))
    await site.in_contact(4)
    await site.memory.beat([LEASE.id])
    sent = site.clock.monotonic()
    site.clock.advance(SHORT.ttl + 1)  # no gap for this supervisor, whose beats are 6 s apart
    site.contact.answered(sent if silence == "a slow answer" else site.clock.monotonic())
    assert await site.recovery.step() == []
    assert site.recovery.pause == SHORT.beat
    site.clock.advance(SHORT.beat)
    await site.memory.beat([LEASE.id])
    assert await site.recovery.step() == []
    assert (await site.row(job)).crashes == 0


async def test_l1_a_supervisor_with_long_beats_polls_at_the_rhythm_of_a_shorter_lease_and_then_judges_it() -> None:
    site = Site()
    await site.claim(1, structs.replace(LEASE, timing=SHORT))
    for _ in range(10):
        site.clock.advance(TIMING.beat)
        site.contact.answered(site.clock.monotonic())
    waited = 0.0
    while not await site.recovery.step():
        assert site.recovery.pause == SHORT.beat
        site.clock.advance(site.recovery.pause)
        waited += site.recovery.pause
    assert SHORT.beat + SHORT.margin <= waited < 2 * (SHORT.beat + SHORT.margin)
    assert await site.recovery.step() == []
    assert site.recovery.pause == float("inf"), "no lease waits to be judged"


async def test_l1_a_silence_that_is_short_for_a_lease_does_not_delay_a_supervisor_with_shorter_beats() -> None:
    site = Site()
    await site.claim(1)
    site.contact = site.recovery._contact = Contact(SHORT, site.clock.monotonic)
    for _ in range(12):
        site.clock.advance(3.0)  # a gap by the beats of this supervisor
        site.contact.answered(site.clock.monotonic())
    assert site.contact.since == site.clock.monotonic()
    assert len(await site.recovery.step()) == 1


@pytest.mark.parametrize("timing", [SHORT, LeaseTiming(ttl=300.0, beat=60.0, margin=50.0)])
async def test_l3_a_job_past_a_limit_is_judged_after_the_amnesty_of_its_lease(timing: LeaseTiming) -> None:
    site = Site()
    (job,) = await site.claim(1, structs.replace(LEASE, timing=timing), policy=Policy(timeout=60.0))
    for _ in range(240):
        await site.in_contact(2)
        await site.memory.beat([LEASE.id])
    site.contact.lost()
    site.contact.answered(site.clock.monotonic())
    assert await site.recovery.step() == []
    await site.in_contact(timing.beat + timing.margin - 0.5)
    await site.memory.beat([LEASE.id])
    assert await site.recovery.step() == []
    await site.in_contact(1)
    await site.memory.beat([LEASE.id])
    assert [each.reason for each in await site.recovery.step()] == ["timed_out"]
    assert (await site.row(job)).attempts[0].rescued_by == "supervisor web-1-42"


async def test_an_operator_may_skip_the_amnesty() -> None:
    site = Site()
    await site.claim(1)
    site.clock.advance(TIMING.ttl + 1)
    assert await site.recovery.step() == []
    assert len(await site.recovery.step(skip_amnesty=True)) == 1


async def test_a_supervisor_does_not_judge_its_own_workers() -> None:
    host = MemoryHost()
    site = Site(host)
    await site.claim(1)
    await site.in_contact(100)
    site.own.add(LEASE.id)
    assert await site.recovery.step(skip_amnesty=True) == []
    site.own.clear()
    assert len(await site.recovery.step()) == 1


async def test_s5_a_lease_renewed_after_it_was_seen_is_not_ended() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.in_contact(TIMING.ttl + 1)
    gate = site.store.hold("end_lease")
    step = asyncio.ensure_future(site.recovery.step())
    await gate.entered.wait()
    await site.memory.beat([LEASE.id])
    gate.opened.set()
    assert await step == []
    assert (await site.row(job)).state is State.RUNNING
    assert site.log.all == []
    assert (await site.memory.beat([LEASE.id])).alive == {LEASE.id}


async def test_s4_a_job_that_was_settled_after_its_lease_was_ended_stays_settled() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.in_contact(TIMING.ttl + 1)
    (active,) = await site.memory.held(LEASE.id)
    gate = site.store.hold("exchange")
    step = asyncio.ensure_future(site.recovery.step())
    await gate.entered.wait()
    await site.memory.exchange([finish(active, Done(), jitter=0.0)])
    gate.opened.set()
    assert await step == []
    assert (await site.row(job)).state is State.COMPLETED
    assert {"job.rescued", "recovery.completed"}.isdisjoint(site.log.names())


@pytest.mark.parametrize("is_step", [True, False])
async def test_the_clocks_are_compared_before_a_lease_is_judged_and_a_step_means_amnesty(is_step: bool) -> None:
    compared = list[str]()

    def compare() -> None:
        compared.append("now")
        if is_step:
            site.contact.lost()

    site = Site(compare=compare)
    await site.claim(1)
    await site.in_contact(TIMING.ttl - 1)
    await site.recovery.step()
    assert compared == [], "no lease is to be judged"
    await site.in_contact(2)
    assert len(await site.recovery.step()) == (0 if is_step else 1)
    assert compared == ["now"]


# which jobs pay


async def test_the_end_of_a_draining_lease_charges_no_job() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.memory.beat([LEASE.id], draining=True)
    await site.in_contact(TIMING.ttl + 1)
    await site.recovery.step()
    row = await site.row(job)
    assert (row.state, row.crashes, row.attempts[0].outcome) == (State.AVAILABLE, 0, AttemptOutcome.RELEASED)


async def test_jobs_that_were_only_claimed_return_free_and_without_an_attempt() -> None:
    site = Site()
    ran, waited = await site.claim(1, prefetch=1)
    await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
    assert [(await site.row(job)).crashes for job in (ran, waited)] == [1, 0]
    assert (await site.row(waited)).attempts == ()


async def test_s9_only_the_culprit_of_a_deliberate_end_pays() -> None:
    site = Site()
    culprit, sibling = await site.claim(2)
    end = LeaseEnd(
        RescueReason.CRASHED, "SIGKILL", is_free=True, charged_jobs={culprit: RescueReason.UNRESPONSIVE}, stacks="its stacks"
    )
    await site.recovery.end(LEASE.id, LEASE.worker, end)
    rows = [await site.row(job) for job in (culprit, sibling)]
    assert [row.crashes for row in rows] == [1, 0]
    record = rows[0].attempts[0]
    assert (record.outcome, record.signal, record.stacks) == (AttemptOutcome.CRASHED, "SIGKILL", "its stacks")
    assert rows[1].attempts[0].outcome is AttemptOutcome.RELEASED


async def test_s9_a_repeated_crash_waits_longer_and_the_budget_ends_the_job() -> None:
    site = Site()
    (job,) = await site.claim(1)
    for crash in (1, 2, 3):
        if crash > 1:
            lease = structs.replace(LEASE, id=UUID(int=100 + crash))
            await site.memory.open_lease(lease)
            await site.claim_again(lease)
        await site.recovery.end(UUID(int=100 + crash) if crash > 1 else LEASE.id, "w", CRASH)
        row = await site.row(job)
        assert row.crashes == crash
        if crash == 1:
            assert row.state is State.AVAILABLE, "due at once"
        if crash == 2:
            assert row.state is State.SCHEDULED
            site.clock.advance(10)
    assert (row.state, row.reason) == (State.FAILED, Reason.WORKER_CRASHED)


@pytest.mark.parametrize(("policy", "state"), [(CrashPolicy.HOLD, State.HELD), (CrashPolicy.FAIL, State.FAILED)])
@pytest.mark.parametrize("is_free", [True, False])
async def test_a_task_with_on_crash_hold_or_fail_is_not_run_again_by_any_rescue(
    policy: CrashPolicy, state: State, is_free: bool
) -> None:
    site = Site()
    (job,) = await site.claim(1, policy=Policy(on_crash=policy))
    await site.recovery.end(LEASE.id, LEASE.worker, LeaseEnd(RescueReason.CRASHED, "SIGKILL", is_free=is_free))
    assert (await site.row(job)).state is state


async def test_the_first_end_reason_stays_and_every_recovery_applies_it() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.memory.end_lease(LEASE.id, CRASH)
    await site.recovery.end(LEASE.id, LEASE.worker, LeaseEnd(RescueReason.CRASHED, "exit code 0", is_free=True))
    row = await site.row(job)
    assert (row.crashes, row.attempts[0].signal) == (1, "SIGKILL")


async def test_jobs_of_a_lease_that_another_ended_are_moved_for_its_end_reason_without_amnesty() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.memory.end_lease(LEASE.id, LeaseEnd(RescueReason.CRASHED, "SIGSEGV", is_free=True))
    site.contact.lost()
    await site.recovery.step()
    row = await site.row(job)
    assert (row.state, row.crashes, row.attempts[0].signal) == (State.AVAILABLE, 0, "SIGSEGV")


async def test_a_cancelled_job_of_a_dead_worker_ends_cancelled() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.memory.request_cancel([job])
    (rescued,) = await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
    assert (await site.row(job)).state is rescued.to is State.CANCELLED


# how jobs are moved


async def test_l2_many_jobs_move_in_batches_until_none_is_left() -> None:
    site = Site()
    await site.claim(2 * HOLDS_PER_MOVE + 5)
    rescued = await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
    assert len(rescued) == 2 * HOLDS_PER_MOVE + 5
    assert site.store.calls.count("exchange") == 3
    assert await site.memory.held(LEASE.id) == ()


async def test_l2_a_rescue_that_was_interrupted_goes_on_with_the_next_pass() -> None:
    site = Site()
    jobs = await site.claim(2)
    await site.in_contact(TIMING.ttl + 1)
    site.store.fail("exchange")
    with pytest.raises(StoreUnavailable):
        await site.recovery.step()
    assert len(await site.recovery.step()) == 2
    assert [(await site.row(job)).crashes for job in jobs] == [1, 1]


async def test_s10_a_rescue_whose_answer_was_lost_charges_once() -> None:
    site = Site()
    (job,) = await site.claim(1)
    await site.in_contact(TIMING.ttl + 1)
    site.store.lose_answer("exchange")
    with pytest.raises(StoreUnavailable):
        await site.recovery.step()
    await site.recovery.step()
    assert (await site.row(job)).crashes == 1


async def test_l8_outcomes_that_a_dead_worker_backed_up_are_delivered_before_its_lease_ends() -> None:
    site = Site()
    done, interrupted = await site.claim(2)
    active = next(active for active in await site.memory.held(LEASE.id) if active.id == done)
    outcome = finish(active, Done(b"42"), jitter=0.0)
    rescued = await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=[outcome])
    assert [each.id for each in rescued] == [interrupted]
    row = await site.row(done)
    assert (row.state, row.result) == (State.COMPLETED, b"42")
    assert site.store.calls == ["exchange", "end_lease", "held", "exchange", "held"]


class RefusingStore(Flaky):
    """A store that refuses every write with the outcome of one job."""

    def __init__(self, store: MemoryStore, refused: UUID) -> None:
        super().__init__(store)
        self.refused, self.is_away = refused, False

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        if any(each.job == self.refused and each.result is not None for each in transitions):
            raise StoreUnavailable("away") if self.is_away else StoreRefused("refused")
        return await self.store.exchange(transitions, request)


async def refusing_site() -> tuple[Site, RefusingStore, list[UUID], list[Transition]]:
    """Return a dead worker with two outcomes, of which the store refuses the first."""
    site = Site()
    jobs = await site.claim(3)
    active_jobs = {active.id: active for active in await site.memory.held(LEASE.id)}
    store = RefusingStore(site.memory, jobs[0])
    site.recovery._store = store  # type: ignore[assignment]
    return site, store, jobs, [finish(active_jobs[job], Done(b"42"), jitter=0.0) for job in jobs[:2]]


async def test_l11_an_outcome_that_the_store_refuses_blocks_neither_its_siblings_nor_the_end_of_its_lease() -> None:
    site, _, (refused, done, interrupted), outcomes = await refusing_site()
    for tries in range(1, MOST_REFUSALS):
        with pytest.raises(StoreRefused):
            await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=outcomes)
        assert (await site.row(done)).state is State.COMPLETED
        assert [fields["failures"] for fields in site.log.of("store.refused")] == list(range(1, tries + 1))
    rescued = await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=outcomes)
    assert {each.id for each in rescued} == {refused, interrupted}
    assert (await site.row(refused)).state is State.AVAILABLE


@pytest.mark.parametrize("refused", [1, 50])
async def test_l11_a_job_whose_rescue_the_store_refuses_blocks_no_other_rescue(refused: int) -> None:
    site = Site()
    jobs = await site.claim(50)
    exchange, sizes, theirs = site.memory.exchange, [], {*jobs[:refused]}

    async def refuse(transitions, request=None):  # type: ignore[no-untyped-def]
        sizes.append(len(transitions))
        if theirs & {each.job for each in transitions}:
            raise StoreRefused("refused")
        return await exchange(transitions, request)

    site.memory.exchange = refuse  # type: ignore[method-assign]
    if refused == len(jobs):
        with pytest.raises(StoreRefused):
            await site.recovery.end(LEASE.id, LEASE.worker, CRASH)
        assert len(sizes) < 10, "a store that refuses all of them is not asked for each"
        return
    assert [each.id for each in await site.recovery.end(LEASE.id, LEASE.worker, CRASH)] == jobs[refused:]
    assert [(each["operation"], each["job"]) for each in site.log.of("store.refused")] == [("rescue", jobs[0])]
    theirs.clear()
    assert [each.id for each in await site.recovery.step()] == jobs[:refused]


async def test_l8_failures_of_a_store_that_is_away_do_not_count_as_refusals() -> None:
    site, store, (job, *_), outcomes = await refusing_site()
    store.is_away = True
    for _ in range(10 * MOST_REFUSALS):
        with pytest.raises(StoreUnavailable):
            await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=outcomes)
    store.is_away, store.refused = False, UUID(int=0)
    await site.recovery.end(LEASE.id, LEASE.worker, CRASH, undelivered=outcomes)
    assert (await site.row(job)).state is State.COMPLETED


async def test_two_rescuers_at_once_move_each_job_once() -> None:
    site = Site()
    jobs = await site.claim(3)
    await site.in_contact(TIMING.ttl + 1)
    gate = site.store.hold("exchange")
    first = asyncio.ensure_future(site.recovery.step())
    await gate.entered.wait()
    assert len(await site.recovery.step()) == 3
    gate.opened.set()
    await first
    rows = [await site.row(job) for job in jobs]
    assert [(row.crashes, len(row.attempts)) for row in rows] == [(1, 1)] * 3


# provably dead


def lease_of(process: ProcessIdentity, number: int = 2) -> NewLease:
    return NewLease(UUID(int=number), "worker-2", process, TIMING)


async def test_a_lease_of_a_provably_dead_process_ends_at_once_after_its_session_is_killed() -> None:
    host = MemoryHost()
    site = Site(host)
    (job,) = await site.claim(1)
    assert len(await site.recovery.reconcile()) == 1
    assert host.killed == [PROCESS.pid]
    row = await site.row(job)
    assert (row.state, row.crashes) == (State.AVAILABLE, 1)


@pytest.mark.parametrize(
    "process",
    [
        structs.replace(OTHER.process, host="host-2"),
        structs.replace(OTHER.process, boot="another boot"),
        structs.replace(OTHER.process, pid_namespace="pid:2"),
        structs.replace(OTHER.process, start=0),
        structs.replace(OTHER.process, boot=""),
    ],
    ids=["another host", "another boot", "another namespace", "unknown start", "unknown boot"],
)
async def test_s5_without_proof_a_lease_waits_for_its_ttl(process: ProcessIdentity) -> None:
    host = MemoryHost()
    site = Site(host)
    await site.claim(1, lease_of(process))
    assert await site.recovery.reconcile() == []
    assert host.killed == []


@pytest.mark.parametrize("by_host_name", [True, False])
async def test_s5_a_living_worker_on_the_same_machine_is_never_killed(by_host_name: bool) -> None:
    host = MemoryHost()
    host.running.add(PROCESS.pid)
    site = Site(host)
    (job,) = await site.claim(1)
    assert await site.recovery.reconcile(by_host_name=by_host_name) == []
    assert (await site.row(job)).state is State.RUNNING
    assert host.killed == []


async def test_where_the_host_name_belongs_to_one_worker_its_older_leases_end_at_once() -> None:
    site = Site(MemoryHost())
    await site.claim(1, lease_of(structs.replace(OTHER.process, boot="before the restart")))
    await site.claim(1, lease_of(structs.replace(OTHER.process, host="host-2"), number=3))
    rescued = await site.recovery.reconcile(by_host_name=True)
    assert len(rescued) == 1
    assert len(await site.memory.held(UUID(int=3))) == 1


async def test_reconciling_can_be_switched_off() -> None:
    site = Site(host=None)
    await site.claim(1)
    assert await site.recovery.reconcile() == []


async def test_s9_dead_workers_of_a_living_supervisor_are_left_to_it_for_a_while_as_it_knows_why_they_died() -> None:
    site = Site(MemoryHost())
    await site.claim(1)
    await site.in_contact(AMNESTY)
    await site.memory.beat([LEASE.id])
    await site.in_contact(AMNESTY)
    assert await site.recovery.step() == []
    await site.in_contact(1)
    assert len(await site.recovery.step()) == 1


async def test_a_draining_worker_that_is_provably_dead_charges_no_job() -> None:
    site = Site(MemoryHost())
    (job,) = await site.claim(1)
    await site.memory.beat([LEASE.id], draining=True)
    await site.recovery.reconcile()
    assert (await site.row(job)).crashes == 0


async def test_s9_after_an_outage_dead_workers_are_left_to_their_supervisor_until_the_amnesty_is_over() -> None:
    site = Site(MemoryHost())
    await site.claim(1)
    await site.in_contact(TIMING.ttl - 1)
    site.contact.lost()
    assert await site.recovery.step() == []
    await site.in_contact(AMNESTY)
    assert len(await site.recovery.step()) == 1


@pytest.mark.parametrize(("is_free", "reason"), [(True, "killed"), (False, "crashed")])
async def test_a_deliberate_end_that_charges_no_job_is_not_reported_as_a_crash(is_free: bool, reason: str) -> None:
    site = Site()
    await site.claim(1)
    await site.recovery.end(LEASE.id, "worker-1", LeaseEnd(RescueReason.CRASHED, "SIGKILL", is_free=is_free))
    assert [(fields["reason"], fields["signal"]) for fields in site.log.of("lease.ended")] == [(reason, "SIGKILL")]


# workflows


async def workflow(site: Site, **options: float) -> UUID:
    """Store a workflow of one node, and return its id."""
    policy = Policy(max_crashes=1)
    root = NewJob(id=site.chance.uuid7(), task="release", payload=b"{}", policy=policy)
    node = NewJob(id=site.chance.uuid7(), task="t", payload=b"{}", policy=policy, **options)  # type: ignore[arg-type]
    flow = NewFlow(
        root=NewMember(root, Member(flow=root.id, node="release", is_gate=True)),
        members=(NewMember(node, Member(flow=root.id, node="build")),),
        edges=gate_edges(root.id, [node.id], ()),
    )
    await site.memory.enqueue_flow(site.chance.uuid4(), flow)
    return root.id


async def test_a_rescue_that_fails_the_last_node_reports_the_end_of_its_workflow() -> None:
    site = Site()
    root = await workflow(site)
    await site.memory.open_lease(LEASE)
    await site.claim_again(LEASE, policy=Policy(max_crashes=1))
    await site.recovery.end(LEASE.id, "worker-1", CRASH)
    assert site.log.of("workflow.failed") == [{"workflow": root, "reason": "DEPENDENCY_FAILED"}]


async def test_an_outcome_that_an_exited_worker_left_reports_the_end_of_its_workflow() -> None:
    site = Site()
    root = await workflow(site)
    await site.memory.open_lease(LEASE)
    await site.claim_again(LEASE)
    (job,) = await site.memory.held(LEASE.id)
    await site.recovery.end(LEASE.id, "worker-1", CRASH, undelivered=[finish(job, Done(), jitter=0.0)])
    assert site.log.of("workflow.completed") == [{"workflow": root, "reason": None}]


async def test_a_node_that_expires_reports_the_end_of_its_workflow() -> None:
    site = Site()
    root = await workflow(site, expires_in=5.0)
    site.clock.advance(6.0)
    assert await site.recovery.expire() == 1
    assert site.log.of("workflow.failed") == [{"workflow": root, "reason": "DEPENDENCY_FAILED"}]
