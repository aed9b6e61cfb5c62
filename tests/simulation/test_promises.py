"""Every verdict of the checker on what is promised beyond ownership: by name, a history in which it holds and one in which not."""

from typing import Any

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.policy import Policy
from holdfast.testing.history import FAIL_OVER, By, History, JobRow, Phase
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import (
    CALL,
    CHILD,
    FIRST,
    FRAGILE,
    JOB,
    LEASE,
    LIMITED,
    NOBODY,
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
ALONE = Rules(is_complete=False, isolates=True)
PROMPT = Rules(is_complete=False, prompt=2.0)
TOKENS = Rules(is_complete=False, returns_tokens=True)
UNHURT = Rules(is_complete=False, has_stalls=False, has_long_silence=False, keeps_results=True)
RESTARTING = Rules(is_complete=False, restart=3.2)
ZOMBIES = Rules(is_complete=False, zombie_bound=5.0)

BACK: dict[str, Any] = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None}

PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules of both worlds, one in which it does and one in which it does not
    "what may be claimed is not paused": (
        "S1",
        OPEN,
        new().queue("paused default").queue("resumed default").claim(),
        new().queue("paused default").claim(),
    ),
    "what may be claimed is due": ("S1", OPEN, new(due_in=-1.0).claim(), new(due_in=1.0).claim()),
    "what may be claimed has not expired": ("S1", OPEN, new(expires_in=1.0).claim(), new(expires_in=-1.0).claim()),
    "a job that was started once does not expire": (
        "S6",
        OPEN,
        new(expires_in=-1.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
        new(expires_in=-1.0, attempt=1).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
    ),
    "what expires has expired": (
        "S6",
        OPEN,
        new(expires_in=-1.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
        new(expires_in=9.0).job(By("expire"), state=State.FAILED, reason=Reason.EXPIRED),
    ),
    "only what nobody owns is deleted": ("S6", OPEN, stopped().settle().gone("delete"), begun().gone("delete")),
    "only what waits is purged": ("S6", OPEN, new().gone("purge"), stopped().settle().gone("purge")),
    "only what ended long ago is pruned": (
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
    "a child's parent is owned by who enqueues it": ("S7", OPEN, child(begun()), child(begun(), SECOND)),
    "a finished job has no more children": ("S7", OPEN, child(begun()), child(stopped().settle())),
    "a batch is written whole": ("S7", OPEN, batch(JOB, CHILD), batch(JOB)),
    "a batch is written at once": ("S7", OPEN, batch(CHILD, JOB), batch(CHILD).lease().other(JOB, By("enqueue", call=CALL))),
    "what was refused is not there": (
        "S7",
        OPEN,
        batch().say("enqueue", Phase.FAIL, job=JOB),
        batch(JOB, CHILD).say("enqueue", Phase.FAIL, job=JOB),
    ),
    "what was refused never comes": (
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
    "who is refused for a key is refused for one that is taken": ("S11", OPEN, keyed(), keyed(before=5.0)),
    "whoever has the code of a task takes it": (
        "S16",
        OPEN,
        new(task="mail").lease(tasks=("mail", "bill")).claim(),
        new(task="mail").lease(tasks=("bill",)).claim(),
    ),
    "what was done before its answer was lost is judged like anything else": (
        "S15",
        OPEN,
        stopped().answer(Phase.UNKNOWN, "completed").settle(),
        stopped().answer(Phase.UNKNOWN, "completed").settle(SECOND),
    ),
    "a confirmed cancellation has marked the job": ("S10", OPEN, marked(asked(begun())).confirmed(), asked(begun()).confirmed()),
    "a confirmed cancellation has ended what nobody owned": (
        "S10",
        OPEN,
        asked(new()).job(By("request_cancel"), state=State.CANCELLED).confirmed(),
        asked(new()).confirmed(),
    ),
    "an operator may think again before the other one is answered": (
        "S10",
        OPEN,
        asked(new()).job(By("request_cancel"), state=State.CANCELLED).job(By("reopen"), state=State.AVAILABLE).confirmed(),
        asked(new()).job(By("reschedule"), state=State.AVAILABLE).confirmed(),
    ),
    "what is marked is cancelled by whoever takes it": (
        "S10",
        OPEN,
        marked(stopped()).settle(state=State.CANCELLED),
        released(marked(stopped())),
    ),
    "nobody is told that a job is missing that was there when he asked": (
        "S10",
        OPEN,
        Tale().answer(Phase.INVOKE, "completed").later(1).job().answer(Phase.FAIL, "completed", note="missing"),
        Tale().job().later(1).answer(Phase.INVOKE, "completed").answer(Phase.FAIL, "completed", note="missing"),
    ),
    "what is marked may complete": ("S10", OPEN, marked(stopped()).settle(), marked(stopped()).settle(state=State.FAILED)),
    "a mark stays": (
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
    "a job has rested before it is charged for resting": ("S9", OPEN, stalled(rested(10)), stalled(rested(9))),
    "a job has run before it is charged for running": (
        "S9",
        OPEN,
        overran(new(policy=LIMITED).claim().later(5).life("handler.move", FIRST).later(6)),
        overran(new(policy=LIMITED).claim().later(5).life("handler.move", FIRST).later(4)),
    ),
    "others leave it to its owner for the ttl and the grace": (
        "S9",
        OPEN,
        stalled(rested(61, moved=False), Precondition.OVERDUE),
        stalled(rested(55, moved=False), Precondition.OVERDUE),
    ),
    "what others heard of it counts": (
        "S9",
        OPEN,
        stalled(rested(5, moved=False).job(By("report"), witness=str(FIRST)).later(61), Precondition.OVERDUE),
        stalled(rested(20, moved=False).job(By("report"), witness=str(FIRST)).later(45), Precondition.OVERDUE),
    ),
    "a last try is apart": ("S9", ALONE, last_try(is_isolated=True), last_try()),
    "the worker of a last try takes nothing else": ("S9", ALONE, new().claim(), new().lease(is_isolated=True).claim()),
    "two last tries have two workers": (
        "S9",
        ALONE,
        last_try(is_isolated=True),
        last_try(is_isolated=True).beside(OTHER_LEASE),
    ),
    "nobody is charged to death beside others": (
        "S9",
        ALONE,
        charged_to_death(last_try(is_isolated=True)),
        charged_to_death(new(policy=FRAGILE, crashes=1).claim(SECOND, LEASE, WORKER)),
    ),
    "what is given back keeps its place": (
        "L10",
        OPEN,
        released(new(due_in=-9.0).claim().life("handler.end", FIRST), due_in=-10.0),
        released(new(due_in=-9.0).claim().life("handler.end", FIRST), due_in=0.0),
    ),
    "what is back starts beside a free slot": (
        "L10",
        RESTARTING,
        released(core()).later(2.9).claim(SECOND),
        released(core()).later(3.1).claim(SECOND),
    ),
    "what is back is claimed and its code starts": (
        "L10",
        RESTARTING,
        taken_late(released(core()), 2.0),
        taken_late(released(core()), 4.0),
    ),
    "what is back waits until a slot is free": (
        "L10",
        RESTARTING,
        full(released(core())).later(9.0).say("handler.end", Phase.LIFE, job=CHILD, token=SECOND).later(2.0).claim(SECOND),
        full(released(core())).later(9.0).say("handler.end", Phase.LIFE, job=CHILD, token=SECOND).later(4.0).claim(SECOND),
    ),
    "what is back does not wait for a worker that is replaced": (
        "L10",
        RESTARTING,
        released(core()).say("worker.draining", Phase.LIFE, "w").later(3.1).claim(SECOND),
        released(core()).say("worker.draining", Phase.LIFE, "another").later(3.1).claim(SECOND),
    ),
    "what is back is not left there": (
        "L10",
        RESTARTING,
        released(core()),
        released(core()).later(4.0).calm().queue("resumed x"),
    ),
    "what has crashed for the first time keeps its place": (
        "L10",
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
    "what is given back is free": ("L7", OPEN, released(stopped()), released(stopped(), failures=1)),
    "who was asked to end makes nobody pay": (
        "L7",
        OPEN,
        begun().lease(is_draining=True).end_lease(by=OTHER, is_judged=True).rescue(crashes=0),
        begun().lease(is_draining=True).end_lease(by=OTHER, is_judged=True).rescue(),
    ),
    "no silence that a lease outlives takes a job": ("L3", UNHURT, stopped().settle(), released(stopped())),
    "only who was asked to end gives a job back": (
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
    "a usable job is taken soon": ("L4", PROMPT, ready().job().later(1).claim(), ready().job().later(3).claim()),
    "it may wait for a free slot": ("L4", PROMPT, ready(slots=0).job().later(9).claim(), ready().job().later(9).claim()),
    "it may wait while its queue is paused": (
        "L4",
        PROMPT,
        ready().queue("paused default").job().later(9).queue("resumed default").claim(),
        ready().job().later(9).queue("paused default").queue("resumed default").later(3).claim(),
    ),
    "it is not left at the end": ("L4", PROMPT, ready().job().later(1).lease(), ready().job().later(9).lease()),
    "a zombie ends": (
        "L5",
        ZOMBIES,
        begun().end_lease(by=OTHER).calm().later(2).say("process.end", Phase.LIFE, WORKER),
        begun().end_lease(by=OTHER).calm().later(9).say("process.end", Phase.LIFE, WORKER),
    ),
    "a zombie is not left at the end": (
        "L5",
        ZOMBIES,
        begun().calm().later(9).end_lease(by=OTHER).later(2).lease(OTHER_LEASE, OTHER),
        begun().calm().end_lease(by=OTHER).later(9).lease(OTHER_LEASE, OTHER),
    ),
    "a zombie that was frozen learns when it wakes": (
        "L5",
        ZOMBIES,
        frozen().later(2).say("process.end", Phase.LIFE, WORKER),
        frozen().later(9).say("process.end", Phase.LIFE, WORKER),
    ),
}
"""By name: good and bad twins."""


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_knows_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    if good.events == bad.events:  # the same history in another kind of world
        assert not bad.check(UNHURT).verdict(wanted)
    else:
        assert not bad.check(rules).verdict(wanted)
    assert good.check(rules).verdict(wanted), good.check(rules).explain(History(good.events))


def test_with_every_hint_lost_it_is_the_poll_that_was_late() -> None:
    late, rules = ready().job().later(3).claim(), Rules(is_complete=False, prompt=2.0, has_hints=False)
    assert not late.check(rules).verdict("L6")
    assert late.check(rules).verdict("L4")


@pytest.mark.parametrize(("calls", "is_bounded"), [(25, True), (26, False)])
def test_l9_calls_in_an_outage_are_counted(calls: int, is_bounded: bool) -> None:
    tale = Tale().say("process.connect", Phase.LIFE, note=f"{calls} 10.0")
    assert tale.check(Rules(calls=(5.0, 2.0))).verdict("L9") is is_bounded


def test_l5_how_soon_a_zombie_learns_is_a_matter_of_its_own_lease() -> None:
    rules = Rules(is_complete=False, zombie_bound=1.0, zombie_amnesties=2.0)
    for beat, is_soon in ((0.5, False), (3.0, True)):
        zombie = Tale().job(By("enqueue")).lease(margin=1.0, beat=beat).claim().end_lease(by=OTHER).calm()
        assert zombie.later(6).say("process.end", Phase.LIFE, WORKER).check(rules).verdict("L5") is is_soon


def test_a_culprit_pays_for_what_it_is_blamed_for() -> None:
    deaf = begun().end_lease(is_free=True, culprits={JOB: RescueReason.UNRESPONSIVE}).life("handler.end", FIRST)
    assert deaf.rescue().check(OPEN).verdict("S9")
    stalled = begun().end_lease(is_free=True, culprits={JOB: RescueReason.STALLED}).life("handler.end", FIRST)
    assert not stalled.rescue().check(OPEN).verdict("S9")


def test_a_batch_with_a_refused_key_of_its_own_is_no_wrong_answer() -> None:
    tale, by = batch(), By("enqueue", call=CALL, holder=CHILD)
    assert not tale.say("enqueue", Phase.FAIL, job=JOB, by=by).check(OPEN).violations


def test_a_store_that_fails_over_may_forget_who_has_a_key() -> None:
    tale = new(key="task/key").other(CHILD, By(FAIL_OVER), key="task/key")
    assert tale.check(OPEN).verdict("S11")


@pytest.mark.parametrize(("stands_at", "is_kept"), [(1.0, True), (3.0, False)])
def test_l10_a_job_that_came_back_is_claimed_before_all_that_stand_behind_it(stands_at: float, is_kept: bool) -> None:
    tale = released(new(available_at=2.0).claim().life("handler.end", FIRST)).other(CHILD, By("enqueue"), available_at=stands_at)
    waiting = JobRow(State.AVAILABLE, NOBODY, available_at=stands_at)
    taken = structs.replace(waiting, state=State.RUNNING, token=SECOND, lease=LEASE, attempt=1)
    tale.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))
    assert tale.check(Rules(is_complete=False, keeps_order=True)).verdict("L10") is is_kept
    assert tale.check(OPEN).verdict("L10")


@pytest.mark.parametrize(("seconds", "is_kept"), [(2.9, True), (3.1, False)])
def test_l10_code_of_a_job_that_came_back_starts_within_a_poll_beside_a_free_slot(seconds: float, is_kept: bool) -> None:
    claimed_late, started_late = released(core()).later(seconds).claim(SECOND), taken_late(released(core()), seconds)
    assert claimed_late.check(RESTARTING).verdict("L10") is is_kept
    assert started_late.check(RESTARTING).verdict("L10") is is_kept
    assert started_late.check(OPEN).verdict("L10")


def test_l10_a_worker_that_is_not_of_the_healthy_core_proves_no_delay() -> None:
    tale = core()
    tale.events = [structs.replace(event, note="") for event in tale.events]
    assert released(tale).later(9.0).claim(SECOND).check(RESTARTING).verdict("L10")
