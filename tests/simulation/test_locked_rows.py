"""Rows that a foreign session has locked: the memory store answers as a server does, and only the locked jobs may be late."""

from contextlib import nullcontext
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Capabilities, ExchangeAnswer
from holdfast._core.book.book import Book
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob, State
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast.errors import StoreBusy
from proof.checker.history import By, History, JobRow, Phase
from proof.checker.verdicts import Rules
from proof.search.decisions import Strike
from proof.simulator.plans import draw_for
from proof.simulator.profiles import Brand
from proof.simulator.simulation import simulate
from proof.stores.locked_rows import LockedRows
from proof.stores.recording_store import Witness, witnessed
from tests.simulation.hand_made_histories import CHILD, JOB, LEASE, NO_CLAIM, SECOND, Tale
from tests.simulation.hand_made_histories import OTHER as OTHER_WORKER
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import core, new, released, taken_late

FIRST, OTHER, THIRD = (UUID(int=number) for number in range(21, 24))
OWN_LEASE = UUID(int=30)


class LockableStore:
    """A store with three jobs, and a worker's lease."""

    def __init__(self, stage: Stage) -> None:
        profile = Capabilities("simulated", "server")
        now = stage.clock.monotonic
        self.store: Witness = witnessed(Book, stage.clock, history=History(), now=now, profile=profile, has_strangers=True)
        self._claims = 100

    async def open(self) -> None:
        jobs = [NewJob(id=job, task="task", payload=b"{}", policy=Policy()) for job in (FIRST, OTHER, THIRD)]
        await self.store.enqueue(UUID(int=31), jobs)
        await self.store.open_lease(NewLease(OWN_LEASE, "worker", ProcessIdentity("m", 1), LeaseTiming.of("30s")))

    async def exchange(self, jobs: list[ActiveJob], limit: int) -> ExchangeAnswer:
        """Settle these jobs, and claim up to ``limit`` others."""
        self._claims += 1
        request = ClaimRequest(lease=OWN_LEASE, claim=UUID(int=self._claims), tasks={"task": Policy()}, limit=limit)
        return await self.store.exchange([finish(job, Done(b"1"), jitter=0.0) for job in jobs], request)

    async def claim(self, limit: int) -> list[ActiveJob]:
        return [claim.job for claim in (await self.exchange([], limit)).claims]

    def lock(self, *jobs: UUID, is_exclusive: bool = True) -> object:
        """Lock the rows as a foreign session; the returned function unlocks them."""
        assert isinstance(self.store.book, LockedRows)
        return self.store.lock(jobs, is_exclusive=is_exclusive)

    async def row(self, job: UUID) -> JobRecord:
        found = await self.store.get(job)
        assert found is not None
        return found


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_l11_a_locked_job_delays_its_own_outcome_and_neither_siblings_nor_claims(is_exclusive: bool) -> None:
    async def play(stage: Stage) -> None:
        await (locked_store := LockableStore(stage)).open()
        stuck, free = await locked_store.claim(2)
        unlock = locked_store.lock(stuck.id, is_exclusive=is_exclusive)
        found = await locked_store.exchange([stuck, free], 1)
        assert found.answers == (Answer.BUSY, Answer.APPLIED)
        assert [claim.job.id for claim in found.claims] == [THIRD]
        assert callable(unlock)
        unlock()
        assert (await locked_store.exchange([stuck], 1)).answers == (Answer.APPLIED,)

    on_stage(play)


def test_a_claim_skips_a_locked_job_which_still_counts_as_due_work() -> None:
    async def play(stage: Stage) -> None:
        await (locked_store := LockableStore(stage)).open()
        locked_store.lock(FIRST, is_exclusive=False)
        assert [job.id for job in await locked_store.claim(1)] == [OTHER]
        assert [job.id for job in await locked_store.claim(2)] == [THIRD]
        assert await locked_store.claim(1) == []
        assert await locked_store.store.next_due(["task"]) == 0.0

    on_stage(play)


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_progress_of_a_locked_job_waits_only_if_the_lock_is_exclusive(is_exclusive: bool) -> None:
    async def play(stage: Stage) -> None:
        await (locked_store := LockableStore(stage)).open()
        stuck, free = await locked_store.claim(2)
        locked_store.lock(stuck.id, is_exclusive=is_exclusive)
        updates = [ProgressUpdate(job=job.id, token=job.token, stage="half") for job in (stuck, free)]
        with pytest.raises(StoreBusy) if is_exclusive else nullcontext() as caught:
            assert await locked_store.store.report(updates) == frozenset()
        assert caught is None or caught.value.jobs == {stuck.id}
        assert (await locked_store.row(free.id)).stage == "half"
        assert (await locked_store.row(stuck.id)).stage == (None if is_exclusive else "half")

    on_stage(play)


def test_an_operators_call_names_the_locked_jobs_and_changes_all_others() -> None:
    async def play(stage: Stage) -> None:
        await (locked_store := LockableStore(stage)).open()
        locked_store.lock(FIRST)
        with pytest.raises(StoreBusy) as caught:
            await locked_store.store.request_cancel([FIRST, OTHER])
        assert caught.value.jobs == {FIRST}
        assert [(await locked_store.row(job)).state for job in (FIRST, OTHER)] == [State.AVAILABLE, State.CANCELLED]
        assert (await locked_store.store.purge("default", 10)).jobs == 1
        assert (await locked_store.row(FIRST)).state is State.AVAILABLE

    on_stage(play)


def test_s25_only_a_locked_job_may_be_skipped() -> None:
    rules = Rules(is_complete=False, keeps_order=True)
    for locked, is_kept in ((JOB, True), (CHILD, False)):
        back = released(new(available_at=2.0).claim().life("handler.end", NO_CLAIM)).other(CHILD, By("enqueue"), available_at=3.0)
        waiting = JobRow(State.AVAILABLE, NO_CLAIM, available_at=3.0)
        taken = structs.replace(waiting, state=State.RUNNING, token=SECOND, lease=LEASE, attempt=1)
        tale = back.say("row.lock", Phase.LIFE, "a stranger", job=locked)
        tale.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))
        assert tale.check(rules).verdict("S25") is is_kept


@pytest.mark.parametrize(("job", "is_kept"), [(JOB, True), (CHILD, False)])
def test_l10_only_code_of_a_job_that_was_locked_may_start_late(job: UUID, is_kept: bool) -> None:
    def tale() -> Tale:
        return released(core()).say("row.lock", Phase.LIFE, "a stranger", job=job).later(8.0)

    rules = Rules(is_complete=False, restart=3.2)
    locked = tale().say("process.freeze", Phase.LIFE, OTHER_WORKER)
    assert locked.check(rules).verdict("L10") is is_kept
    unlock = tale().say("row.unlock", Phase.LIFE, "a stranger", job=job)
    assert taken_late(unlock, 1.0).check(rules).verdict("L10") is is_kept
    assert not taken_late(tale().say("row.unlock", Phase.LIFE, "a stranger", job=job), 4.0).check(rules).verdict("L10")


def test_foreign_sessions_lock_rows_in_some_worlds_of_a_store_with_such_locks() -> None:
    plans = [draw_for(seed, Brand.MEMORY) for seed in range(400)]
    locked = [plan for plan in plans if plan.locks]
    assert 10 < len(locked) < 100
    assert {plan.profile.value for plan in locked} == {"plain"}
    assert not any(draw_for(seed, Brand.POSTGRES).locks for seed in range(20))


def test_a_row_locked_by_a_foreign_session_is_answered_busy_and_recorded() -> None:
    outcome = simulate(73)
    assert outcome.plan.locks == 30
    assert outcome.is_clean
    assert any(event.what == "settle" and event.note == Answer.BUSY for event in outcome.history)
    assert any(isinstance(each, Strike) and each.name == "lock_row" and each.whom for each in outcome.decisions)
