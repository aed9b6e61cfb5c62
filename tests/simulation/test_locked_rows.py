"""Rows that a stranger has locked: the memory store answers as a server does, and only the locked jobs may be late."""

from contextlib import nullcontext
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.answers import Answer, Capabilities, ExchangeAnswer
from holdfast._core.book import Book
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import ActiveJob, NewJob, State
from holdfast._core.lifecycle import finish
from holdfast._core.outcome import Done
from holdfast._core.policy import Policy
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest, NewLease, ProgressUpdate
from holdfast._core.timing import LeaseTiming
from holdfast.errors import StoreBusy
from holdfast.testing.history import By, History, JobRow, Phase
from proof.checker.verdicts import Rules
from proof.search.decisions import Strike
from proof.simulator.plans import draw_for
from proof.simulator.profiles import Brand
from proof.simulator.simulation import simulate
from proof.stores.locked_rows import LockedRows
from proof.stores.recording_store import Witness, witnessed
from tests.simulation.hand_made_histories import CHILD, JOB, LEASE, NOBODY, SECOND, Tale
from tests.simulation.hand_made_histories import OTHER as OTHER_WORKER
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import core, new, released, taken_late

FIRST, OTHER, THIRD = (UUID(int=number) for number in range(21, 24))
HOME = UUID(int=30)


class Site:
    """A store with three jobs, and a worker's lease."""

    def __init__(self, stage: Stage) -> None:
        profile = Capabilities("simulated", "server")
        now = stage.clock.monotonic
        self.store: Witness = witnessed(Book, stage.clock, history=History(), now=now, profile=profile, has_strangers=True)
        self._claims = 100

    async def open(self) -> None:
        """All three wait."""
        jobs = [NewJob(id=job, task="task", payload=b"{}", policy=Policy()) for job in (FIRST, OTHER, THIRD)]
        await self.store.enqueue(UUID(int=31), jobs)
        await self.store.open_lease(NewLease(HOME, "worker", ProcessIdentity("m", 1), LeaseTiming.of("30s")))

    async def exchange(self, holds: list[ActiveJob], limit: int) -> ExchangeAnswer:
        """Settle these, and claim so many."""
        self._claims += 1
        request = ClaimRequest(lease=HOME, claim=UUID(int=self._claims), tasks={"task": Policy()}, limit=limit)
        return await self.store.exchange([finish(hold, Done(b"1"), jitter=0.0) for hold in holds], request)

    async def claim(self, limit: int) -> list[ActiveJob]:
        """Of so many."""
        return [claim.job for claim in (await self.exchange([], limit)).claims]

    def lock(self, *jobs: UUID, is_exclusive: bool = True) -> object:
        """By a stranger; call the answer to let go."""
        assert isinstance(self.store.book, LockedRows)
        return self.store.lock(jobs, is_exclusive=is_exclusive)

    async def row(self, job: UUID) -> JobRecord:
        """As it is."""
        found = await self.store.get(job)
        assert found is not None
        return found


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_l11_a_locked_job_delays_its_own_outcome_and_no_sibling_and_no_claim(is_exclusive: bool) -> None:
    async def play(stage: Stage) -> None:
        await (site := Site(stage)).open()
        stuck, free = await site.claim(2)
        let_go = site.lock(stuck.id, is_exclusive=is_exclusive)
        found = await site.exchange([stuck, free], 1)
        assert found.answers == (Answer.BUSY, Answer.APPLIED)
        assert [claim.job.id for claim in found.claims] == [THIRD]
        assert callable(let_go)
        let_go()
        assert (await site.exchange([stuck], 1)).answers == (Answer.APPLIED,)

    on_stage(play)


def test_a_claim_passes_a_locked_job_by_and_whoever_asks_when_work_is_due_is_told_of_it() -> None:
    async def play(stage: Stage) -> None:
        await (site := Site(stage)).open()
        site.lock(FIRST, is_exclusive=False)
        assert [hold.id for hold in await site.claim(1)] == [OTHER]
        assert [hold.id for hold in await site.claim(2)] == [THIRD]
        assert await site.claim(1) == []
        assert await site.store.next_due(["task"]) == 0.0

    on_stage(play)


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_progress_of_a_locked_job_waits_only_if_the_lock_is_exclusive(is_exclusive: bool) -> None:
    async def play(stage: Stage) -> None:
        await (site := Site(stage)).open()
        stuck, free = await site.claim(2)
        site.lock(stuck.id, is_exclusive=is_exclusive)
        updates = [ProgressUpdate(job=hold.id, token=hold.token, stage="half") for hold in (stuck, free)]
        with pytest.raises(StoreBusy) if is_exclusive else nullcontext() as caught:
            assert await site.store.report(updates) == frozenset()
        assert caught is None or caught.value.jobs == {stuck.id}
        assert (await site.row(free.id)).stage == "half"
        assert (await site.row(stuck.id)).stage == (None if is_exclusive else "half")

    on_stage(play)


def test_an_operator_is_told_which_jobs_are_locked_and_all_others_are_done() -> None:
    async def play(stage: Stage) -> None:
        await (site := Site(stage)).open()
        site.lock(FIRST)
        with pytest.raises(StoreBusy) as caught:
            await site.store.request_cancel([FIRST, OTHER])
        assert caught.value.jobs == {FIRST}
        assert [(await site.row(job)).state for job in (FIRST, OTHER)] == [State.AVAILABLE, State.CANCELLED]
        assert (await site.store.purge("default", 10)).jobs == 1
        assert (await site.row(FIRST)).state is State.AVAILABLE

    on_stage(play)


def test_l10_a_job_that_is_locked_may_be_passed_and_no_other_may() -> None:
    rules = Rules(is_complete=False, keeps_order=True)
    for locked, is_kept in ((JOB, True), (CHILD, False)):
        back = released(new(available_at=2.0).claim().life("handler.end", NOBODY)).other(CHILD, By("enqueue"), available_at=3.0)
        waiting = JobRow(State.AVAILABLE, NOBODY, available_at=3.0)
        taken = structs.replace(waiting, state=State.RUNNING, token=SECOND, lease=LEASE, attempt=1)
        tale = back.say("row.lock", Phase.LIFE, "a stranger", job=locked)
        tale.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))
        assert tale.check(rules).verdict("L10") is is_kept


@pytest.mark.parametrize(("job", "is_kept"), [(JOB, True), (CHILD, False)])
def test_l10_code_of_a_job_that_was_locked_may_start_late_and_no_other(job: UUID, is_kept: bool) -> None:
    def tale() -> Tale:
        return released(core()).say("row.lock", Phase.LIFE, "a stranger", job=job).later(8.0)

    rules = Rules(is_complete=False, restart=3.2)
    locked = tale().say("process.freeze", Phase.LIFE, OTHER_WORKER)
    assert locked.check(rules).verdict("L10") is is_kept
    let_go = tale().say("row.unlock", Phase.LIFE, "a stranger", job=job)
    assert taken_late(let_go, 1.0).check(rules).verdict("L10") is is_kept
    assert not taken_late(tale().say("row.unlock", Phase.LIFE, "a stranger", job=job), 4.0).check(rules).verdict("L10")


def test_strangers_lock_rows_in_some_worlds_of_a_store_that_has_such_locks() -> None:
    plans = [draw_for(seed, Brand.MEMORY) for seed in range(400)]
    locked = [plan for plan in plans if plan.locks]
    assert 10 < len(locked) < 100
    assert {plan.profile.value for plan in locked} == {"plain"}
    assert not any(draw_for(seed, Brand.POSTGRES).locks for seed in range(20))


def test_what_a_stranger_locks_is_answered_busy_and_told_in_the_history() -> None:
    outcome = simulate(73)
    assert outcome.plan.locks == 30
    assert outcome.is_clean
    assert any(event.what == "settle" and event.note == Answer.BUSY for event in outcome.history)
    assert any(isinstance(each, Strike) and each.name == "lock_row" and each.whom for each in outcome.decisions)
