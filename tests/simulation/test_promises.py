"""Every verdict of the checker on what is promised beyond ownership: by name, a history in which it holds and one in which it does not."""

from typing import Any

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.policy import Policy
from proof.checker.history import FAIL_OVER, By, History, JobRow, Phase
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import (
    CALL,
    CHILD,
    FIRST,
    FRAGILE,
    JOB,
    LEASE,
    LIMITED,
    NO_CLAIM,
    OTHER,
    OTHER_LEASE,
    SECOND,
    WORKER,
    Tale,
    asked,
    batch,
    begun,
    charged_to_death,
    child,
    claimed_beside,
    core,
    frozen,
    full,
    keyed,
    last_try,
    marked,
    new,
    overran,
    ready,
    released,
    rested,
    stalled,
    stopped,
    taken_late,
)

OPEN = Rules(is_complete=False)
ISOLATING = Rules(is_complete=False, isolates=True)
PROMPT = Rules(is_complete=False, prompt=2.0)
TOKENS = Rules(is_complete=False, returns_tokens=True)
UNHURT = Rules(is_complete=False, has_stalls=False, has_long_silence=False, keeps_results=True)
RESTARTING = Rules(is_complete=False, restart=3.2)
CONFIRMING = Rules(is_complete=False, confirms_claims=True)
ZOMBIES = Rules(is_complete=False, zombie_bound=5.0)

BACK: dict[str, Any] = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None}


def claimed_too_late(*, has_ended: bool) -> Tale:
    """A claim that was made for a lease that had run out, or ended; its worker never got the answer."""
    tale = Tale().job().lease().later(31)
    tale = tale.end_lease() if has_ended else tale
    return tale.job(By("claim"), state=State.RUNNING, token=FIRST, lease=LEASE, attempt=1)


def ahead() -> Tale:
    """A job that is claimed and has not started."""
    return new().job(By("claim"), state=State.CLAIMED, token=FIRST, lease=LEASE)


PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules of both histories, one in which it holds and one in which it does not
    "a claimable job is not in a paused queue": (
        "S1",
        OPEN,
        new().queue("paused default").queue("resumed default").claim(),
        new().queue("paused default").claim(),
    ),
    "a claimable job is due": ("S1", OPEN, new(due_in=-1.0).claim(), new(due_in=1.0).claim()),
    "a claim made for a lease that had ended starts no code": (
        "S8",
        CONFIRMING,
        claimed_too_late(has_ended=True),
        claimed_too_late(has_ended=True).life("handler.start", FIRST),
    ),
    "a claim made for a lease that had run out starts no code": (
        "S8",
        CONFIRMING,
        claimed_too_late(has_ended=False),
        claimed_too_late(has_ended=False).life("handler.start", FIRST),
    ),
    "a claimable job has not expired": ("S1", OPEN, new(expires_in=1.0).claim(), new(expires_in=-1.0).claim()),
    "a job that was started once does not expire": (
        "S6",
        OPEN,
        new(expires_in=-1.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
        new(expires_in=-1.0, attempt=1).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
    ),
    "only a job past its expiry is failed as expired": (
        "S6",
        OPEN,
        new(expires_in=-1.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
        new(expires_in=9.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
    ),
    "only a job without an owner is deleted": ("S6", OPEN, stopped().settle().gone("delete"), begun().gone("delete")),
    "only a waiting job is purged": ("S6", OPEN, new().gone("purge"), stopped().settle().gone("purge")),
    "only a job that ended long ago is pruned": (
        "S6",
        OPEN,
        new(policy=Policy(retention=0.0)).claim().life("handler.end", FIRST).settle().later(900).gone("prune"),
        new(policy=Policy(retention=0.0)).claim().life("handler.end", FIRST).settle().later(800).gone("prune"),
    ),
    "its own retention counts if it is longer": (
        "S6",
        OPEN,
        new(policy=Policy(retention=2000.0)).claim().life("handler.end", FIRST).settle().later(2000).gone("prune"),
        new(policy=Policy(retention=2000.0)).claim().life("handler.end", FIRST).settle().later(900).gone("prune"),
    ),
    "a child is enqueued by the owner of its parent": ("S7", OPEN, child(begun()), child(begun(), SECOND)),
    "a finished job has no more children": ("S7", OPEN, child(begun()), child(stopped().settle())),
    "a batch is written whole": ("S7", OPEN, batch(JOB, CHILD), batch(JOB)),
    "a batch is written at once": ("S7", OPEN, batch(CHILD, JOB), batch(CHILD).lease().other(JOB, By("enqueue", call=CALL))),
    "a refused job does not exist": (
        "S7",
        OPEN,
        batch().say("enqueue", Phase.FAIL, job=JOB),
        batch(JOB, CHILD).say("enqueue", Phase.FAIL, job=JOB),
    ),
    "a refused job is never inserted": (
        "S7",
        OPEN,
        batch().say("enqueue", Phase.FAIL, job=JOB).lease(),
        batch().say("enqueue", Phase.FAIL, job=JOB).other(JOB, By("enqueue")),
    ),
    "one unfinished job has a key": (
        "S11",
        OPEN,
        new(key="task/key").claim().life("handler.end", FIRST).settle().other(CHILD, By("enqueue"), key="task/key"),
        new(key="task/key").claim().life("handler.end", FIRST).other(CHILD, By("enqueue"), key="task/key"),
    ),
    "a reopened job takes no key of another": (
        "S11",
        OPEN,
        new(key="task/key").claim().settle().job(By("reopen"), state=State.AVAILABLE),
        new(key="task/key").claim().settle().other(CHILD, By("enqueue"), key="task/key").job(By("reopen"), state=State.AVAILABLE),
    ),
    "a job is refused only for a key that is taken": ("S11", OPEN, keyed(), keyed(before=5.0)),
    "only a worker with the code of a task takes its jobs": (
        "S16",
        OPEN,
        new(task="mail").lease(tasks=("mail", "bill")).claim(),
        new(task="mail").lease(tasks=("bill",)).claim(),
    ),
    "a worker starts only jobs whose claim it knows": (
        "S26",
        OPEN,
        ahead().say("claim", Phase.OK, job=JOB, token=FIRST).job(By("start_through", FIRST), state=State.RUNNING, attempt=1),
        ahead().job(By("start_through", FIRST), state=State.RUNNING, attempt=1),
    ),
    "a job that never started pays nothing": (
        "S26",
        OPEN,
        ahead().end_lease().rescue(crashes=0),
        ahead().end_lease().rescue(crashes=1),
    ),
    "a write whose answer was lost is judged as any other": (
        "S15",
        OPEN,
        stopped().answer(Phase.UNKNOWN, "completed").settle(),
        stopped().answer(Phase.UNKNOWN, "completed").settle(SECOND),
    ),
    "a confirmed cancellation is recorded on the job": (
        "S10",
        OPEN,
        marked(asked(begun())).confirmed(),
        asked(begun()).confirmed(),
    ),
    "a confirmed cancellation has ended a job without an owner": (
        "S10",
        OPEN,
        asked(new()).job(By("request_cancel"), state=State.CANCELLED).confirmed(),
        asked(new()).confirmed(),
    ),
    "an operator may retry the job before the cancellation is answered": (
        "S10",
        OPEN,
        asked(new()).job(By("request_cancel"), state=State.CANCELLED).job(By("reopen"), state=State.AVAILABLE).confirmed(),
        asked(new()).job(By("reschedule"), state=State.AVAILABLE).confirmed(),
    ),
    "a job with a requested cancellation ends cancelled under any owner": (
        "S10",
        OPEN,
        marked(stopped()).settle(state=State.CANCELLED),
        released(marked(stopped())),
    ),
    "a job that existed at the time of a call is not reported as missing": (
        "S10",
        OPEN,
        Tale().answer(Phase.INVOKE, "completed").later(1).job().answer(Phase.FAIL, "completed", note="missing"),
        Tale().job().later(1).answer(Phase.INVOKE, "completed").answer(Phase.FAIL, "completed", note="missing"),
    ),
    "a job that is to be cancelled may complete": (
        "S10",
        OPEN,
        marked(stopped()).settle(),
        marked(stopped()).settle(state=State.FAILED),
    ),
    "a requested cancellation stays": (
        "S10",
        OPEN,
        marked(begun()).job(By("report", FIRST), witness=str(FIRST)),
        marked(begun()).job(By("report", FIRST), is_cancel_requested=False),
    ),
    "a result comes with its state": (
        "S13",
        OPEN,
        stopped().settle(result=str(FIRST)),
        stopped().job(By("exchange", FIRST), result=str(FIRST)),
    ),
    "a state comes with its result": ("S13", TOKENS, stopped().settle(result=str(FIRST)), stopped().settle()),
    "a job is charged as stalled only after its limit": ("S9", OPEN, stalled(rested(10)), stalled(rested(9))),
    "a job is charged as timed out only after its limit": (
        "S9",
        OPEN,
        overran(new(policy=LIMITED).claim().later(5).life("handler.move", FIRST).later(6)),
        overran(new(policy=LIMITED).claim().later(5).life("handler.move", FIRST).later(4)),
    ),
    "other supervisors judge a limit only after the ttl and the grace": (
        "S9",
        OPEN,
        stalled(rested(61, moved=False), Precondition.OVERDUE),
        stalled(rested(55, moved=False), Precondition.OVERDUE),
    ),
    "progress that the store has received counts": (
        "S9",
        OPEN,
        stalled(rested(5, moved=False).job(By("report"), witness=str(FIRST)).later(61), Precondition.OVERDUE),
        stalled(rested(20, moved=False).job(By("report"), witness=str(FIRST)).later(45), Precondition.OVERDUE),
    ),
    "an isolated attempt has its own worker": ("S9", ISOLATING, last_try(is_isolated=True), last_try()),
    "the worker of an isolated attempt takes no other job": (
        "S9",
        ISOLATING,
        new().claim(),
        new().lease(is_isolated=True).claim(),
    ),
    "two isolated attempts have two workers": (
        "S9",
        ISOLATING,
        last_try(is_isolated=True),
        last_try(is_isolated=True).beside(OTHER_LEASE),
    ),
    "no job is charged with its last crash beside others": (
        "S9",
        ISOLATING,
        charged_to_death(last_try(is_isolated=True)),
        charged_to_death(new(policy=FRAGILE, crashes=1).claim(SECOND, LEASE, WORKER)),
    ),
    "a released job keeps its position": (
        "S25",
        OPEN,
        released(new(due_in=-9.0).claim().life("handler.end", FIRST), due_in=-10.0),
        released(new(due_in=-9.0).claim().life("handler.end", FIRST), due_in=0.0),
    ),
    "a job that wants to wait goes behind the others": (
        "S25",
        OPEN,
        stopped().settle(record=AttemptOutcome.SNOOZED, **BACK, due_in=0.0),
        stopped().settle(record=AttemptOutcome.SNOOZED, **BACK, due_in=-1.0),
    ),
    "a returned job starts beside a free slot": (
        "L10",
        RESTARTING,
        released(core()).later(2.9).claim(SECOND),
        released(core()).later(3.1).claim(SECOND),
    ),
    "the code of a returned job starts": (
        "L10",
        RESTARTING,
        taken_late(released(core()), 2.0),
        taken_late(released(core()), 4.0),
    ),
    "a returned job waits while the only slot runs the hook of another": (
        "L10",
        RESTARTING,
        claimed_beside(released(core()), is_owed=True).later(9.0).claim(SECOND),
        claimed_beside(released(core()), is_owed=False).later(9.0).claim(SECOND),
    ),
    "a returned job waits until a slot is free": (
        "L10",
        RESTARTING,
        full(released(core())).later(9.0).say("handler.end", Phase.LIFE, job=CHILD, token=SECOND).later(2.0).claim(SECOND),
        full(released(core())).later(9.0).say("handler.end", Phase.LIFE, job=CHILD, token=SECOND).later(4.0).claim(SECOND),
    ),
    "a returned job does not wait for a worker that is replaced": (
        "L10",
        RESTARTING,
        released(core()).say("worker.draining", Phase.LIFE, "w").later(3.1).claim(SECOND),
        released(core()).say("worker.draining", Phase.LIFE, "another").later(3.1).claim(SECOND),
    ),
    "a returned job does not wait until the end": (
        "L10",
        RESTARTING,
        released(core()),
        released(core()).later(4.0).calm().queue("resumed x"),
    ),
    "a job keeps its position after its first crash": (
        "S25",
        OPEN,
        stopped().settle(record=AttemptOutcome.CRASHED, **BACK, crashes=2, due_in=1.0),
        stopped().settle(record=AttemptOutcome.CRASHED, **BACK, crashes=1, due_in=1.0),
    ),
    "a claim whose code never ran does not count": (
        "S9",
        OPEN,
        new().claim().settle(**BACK, attempt=0),
        new().claim().settle(**BACK),
    ),
    "a release charges no failure": ("L7", OPEN, released(stopped()), released(stopped(), failures=1)),
    "the end of a draining worker charges no job": (
        "L7",
        OPEN,
        begun().lease(is_draining=True).end_lease(by=OTHER, is_judged=True).rescue(crashes=0),
        begun().lease(is_draining=True).end_lease(by=OTHER, is_judged=True).rescue(),
    ),
    "no silence shorter than a lease takes a job": ("L3", UNHURT, stopped().settle(), released(stopped())),
    "only a draining worker releases a job": (
        "L3",
        UNHURT,
        released(stopped().lease(is_draining=True)),
        released(stopped().lease()),
    ),
    "no outage stalls a job": ("L8", OPEN, stalled(rested(10)), stalled(rested(10))),
    "a result that code returned is written": (
        "L8",
        UNHURT,
        begun().life("handler.done", FIRST).life("handler.end", FIRST).settle(result=str(FIRST)),
        begun().life("handler.done", FIRST).life("handler.end", FIRST),
    ),
    "a result that code returned is not replaced": (
        "L8",
        UNHURT,
        begun().life("handler.done", FIRST).life("handler.end", FIRST).settle(result=str(FIRST)),
        begun().life("handler.done", FIRST).life("handler.end", FIRST).settle(state=State.FAILED),
    ),
    "a claimable job is claimed soon": ("L4", PROMPT, ready().job().later(1).claim(), ready().job().later(3).claim()),
    "a job may wait for a free slot": ("L4", PROMPT, ready(slots=0).job().later(9).claim(), ready().job().later(9).claim()),
    "a job may wait while its queue is paused": (
        "L4",
        PROMPT,
        ready().queue("paused default").job().later(9).queue("resumed default").claim(),
        ready().job().later(9).queue("paused default").queue("resumed default").later(3).claim(),
    ),
    "a claimable job does not wait until the end": ("L4", PROMPT, ready().job().later(1).lease(), ready().job().later(9).lease()),
    "a zombie ends": (
        "L5",
        ZOMBIES,
        begun().end_lease(by=OTHER).calm().later(2).say("process.end", Phase.LIFE, WORKER),
        begun().end_lease(by=OTHER).calm().later(9).say("process.end", Phase.LIFE, WORKER),
    ),
    "a zombie does not live until the end": (
        "L5",
        ZOMBIES,
        begun().calm().later(9).end_lease(by=OTHER).later(2).lease(OTHER_LEASE, OTHER),
        begun().calm().end_lease(by=OTHER).later(9).lease(OTHER_LEASE, OTHER),
    ),
    "a frozen zombie ends after its thaw": (
        "L5",
        ZOMBIES,
        frozen().later(2).say("process.end", Phase.LIFE, WORKER),
        frozen().later(9).say("process.end", Phase.LIFE, WORKER),
    ),
}
"""Pairs of a good and a bad history, by name."""


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_knows_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    if good.events == bad.events:  # the same history in another kind of world
        assert not bad.check(UNHURT).verdict(wanted)
    else:
        assert not bad.check(rules).verdict(wanted)
    assert good.check(rules).verdict(wanted), good.check(rules).explain(History(good.events))


def test_with_every_hint_lost_a_late_start_is_charged_to_the_poll() -> None:
    late, rules = ready().job().later(3).claim(), Rules(is_complete=False, prompt=2.0, has_hints=False)
    assert not late.check(rules).verdict("L6")
    assert late.check(rules).verdict("L4")


@pytest.mark.parametrize(("calls", "is_bounded"), [(25, True), (26, False)])
def test_l9_calls_in_an_outage_are_counted(calls: int, is_bounded: bool) -> None:
    tale = Tale().say("process.connect", Phase.LIFE, note=f"{calls} 10.0")
    assert tale.check(Rules(calls=(5.0, 2.0))).verdict("L9") is is_bounded


def test_l5_the_bound_of_a_zombie_follows_its_own_lease() -> None:
    rules = Rules(is_complete=False, zombie_bound=1.0, zombie_amnesties=2.0)
    for beat, is_soon in ((0.5, False), (3.0, True)):
        zombie = Tale().job(By("enqueue")).lease(margin=1.0, beat=beat).claim().end_lease(by=OTHER).calm()
        assert zombie.later(6).say("process.end", Phase.LIFE, WORKER).check(rules).verdict("L5") is is_soon


def test_a_culprit_is_charged_for_its_own_reason() -> None:
    unresponsive = begun().end_lease(is_free=True, culprits={JOB: RescueReason.UNRESPONSIVE}).life("handler.end", FIRST)
    assert unresponsive.rescue().check(OPEN).verdict("S9")
    stalled = begun().end_lease(is_free=True, culprits={JOB: RescueReason.STALLED}).life("handler.end", FIRST)
    assert not stalled.rescue().check(OPEN).verdict("S9")


def test_a_batch_may_be_refused_for_a_key_within_the_batch() -> None:
    tale, by = batch(), By("enqueue", call=CALL, holder=CHILD)
    assert not tale.say("enqueue", Phase.FAIL, job=JOB, by=by).check(OPEN).violations


def test_a_store_that_fails_over_may_forget_the_holder_of_a_key() -> None:
    tale = new(key="task/key").other(CHILD, By(FAIL_OVER), key="task/key")
    assert tale.check(OPEN).verdict("S11")


@pytest.mark.parametrize(("stands_at", "is_kept"), [(1.0, True), (3.0, False)])
def test_s25_a_returned_job_is_claimed_before_all_jobs_behind_it(stands_at: float, is_kept: bool) -> None:
    tale = released(new(available_at=2.0).claim().life("handler.end", FIRST)).other(CHILD, By("enqueue"), available_at=stands_at)
    waiting = JobRow(State.AVAILABLE, NO_CLAIM, available_at=stands_at)
    taken = structs.replace(waiting, state=State.RUNNING, token=SECOND, lease=LEASE, attempt=1)
    tale.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))
    assert tale.check(Rules(is_complete=False, keeps_order=True)).verdict("S25") is is_kept
    assert tale.check(OPEN).verdict("S25")


@pytest.mark.parametrize(("seconds", "is_kept"), [(2.9, True), (3.1, False)])
def test_l10_code_of_a_returned_job_starts_within_a_poll_beside_a_free_slot(seconds: float, is_kept: bool) -> None:
    claimed_late, started_late = released(core()).later(seconds).claim(SECOND), taken_late(released(core()), seconds)
    assert claimed_late.check(RESTARTING).verdict("L10") is is_kept
    assert started_late.check(RESTARTING).verdict("L10") is is_kept
    assert started_late.check(OPEN).verdict("L10")


def test_l10_a_worker_outside_the_healthy_core_proves_no_delay() -> None:
    tale = core()
    tale.events = [structs.replace(event, note="") for event in tale.events]
    assert released(tale).later(9.0).claim(SECOND).check(RESTARTING).verdict("L10")
