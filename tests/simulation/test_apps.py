"""Workers in users' own processes: they die, freeze and lose the store as a whole, and no supervisor kills code that they cannot stop."""

import random
from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State
from holdfast._engine.embedded.in_process import LoopChannel
from holdfast._ports.host import Exit
from proof.checker.history import EMBEDDED, Event, JobRow, LeaseRow, Phase
from proof.search.decisions import Birth, Decision, Strike
from proof.simulator.loop import PROCESS, Process
from proof.simulator.plans import Mode, Plan, draw, draw_for
from proof.simulator.profiles import Brand
from proof.simulator.simulation import Outcome, perform, simulate
from proof.simulator.supervisor_settings import APPS
from tests.simulation.hand_made_histories import FIRST, FRAGILE, LEASE, OTHER, OTHER_LEASE, SECOND, WORKER, Tale
from tests.simulation.support import Stage, on_stage
from tests.simulation.test_promises import ISOLATING, OPEN, ZOMBIES

SOME = [seed for seed in range(200) if draw_for(seed, Brand.MEMORY).apps]
FIRST_APP = f"{EMBEDDED} 0.1"


# the draws


def test_a_few_worlds_have_one_or_two_apps_and_all_other_draws_stay_the_same() -> None:
    plans = [draw(random.Random(seed)) for seed in range(1000)]
    found = [plan for plan in plans if plan.apps]
    assert 0.5 * APPS < len(found) / len(plans) < 1.5 * APPS
    assert {plan.apps for plan in found} == {1, 2}
    assert len({plan.mode for plan in found}) > 5


@pytest.mark.parametrize("seed", [*SOME[:2], *(pytest.param(seed, marks=pytest.mark.prove) for seed in SOME[2:6])])
def test_a_world_with_apps_replayed_from_its_decisions_is_the_same(seed: int) -> None:
    drawn = simulate(seed)
    played = perform(structs.replace(drawn.plan, script=tuple(drawn.decisions)), seed)
    assert played.history.digest() == drawn.history.digest()


# faults


def world(*strikes: Strike, task: str = "long", seed: int = 0) -> Outcome:
    """One supervisor and one process with a worker, with these faults only."""
    plan: Plan = structs.replace(
        next(plan for each in range(100) if (plan := draw_for(each, Brand.MEMORY)).mode is Mode.SAFETY and plan.rows is None),
        supervisors=1,
        outfits=(),
        has_queue=False,
        has_releases=False,
        has_strangers=False,
        backlog=0,
        locks=0,
        clients=1,
        jobs=30,
        concurrency=5,
        apps=1,
    )
    births: list[Decision] = [Birth(0, number, task) for number in range(plan.jobs)]
    return perform(structs.replace(plan, script=(*births, *strikes)), seed)


def of_app(outcome: Outcome, what: str, title: str = FIRST_APP) -> list[Event]:
    """The events of that kind in the life of the process."""
    return [event for event in outcome.history if event.what == what and event.process == outcome.titles.get(title)]


def leases_of(outcome: Outcome, title: str = FIRST_APP) -> list[UUID | None]:
    """All leases of its workers."""
    return list(dict.fromkeys(event.lease for event in of_app(outcome, "lease", title)))


def test_an_app_runs_its_share_of_the_jobs_under_one_lease() -> None:
    outcome = world()
    assert outcome.is_clean, outcome.explain()
    assert len(of_app(outcome, "handler.start")) > 2
    assert len(leases_of(outcome)) == 1


def test_a_killed_app_is_replaced_and_its_jobs_are_rescued_at_its_ttl() -> None:
    outcome = world(Strike(4.0, "kill_app"), task="silent")
    assert outcome.is_clean, outcome.explain()
    (end,) = of_app(outcome, "process.end")
    ends = [event for event in outcome.history if event.what == "lease" and event.lease in leases_of(outcome) and ended(event)]
    assert end.time == 4.0
    assert ends
    assert outcome.report.rescues > 0
    assert of_app(outcome, "handler.start", f"{EMBEDDED} 0.2")


def test_an_app_stopped_for_long_finds_its_lease_ended_and_opens_another() -> None:
    outcome = world(Strike(4.0, "freeze_app", seconds=60.0), task="silent")
    assert outcome.is_clean, outcome.explain()
    assert outcome.report.rescues > 0
    assert len(leases_of(outcome)) == 2
    assert not of_app(outcome, "process.end")


def test_an_app_that_is_cut_off_stops_its_code_before_its_jobs_are_rescued() -> None:
    outcome = world(Strike(4.0, "cut_app", seconds=60.0), task="silent")
    assert outcome.is_clean, outcome.explain()
    assert outcome.report.rescues > 0
    assert (outcome.report.overlaps_inside, outcome.report.overlaps_outside) == (0, 0)
    assert len(leases_of(outcome)) == 2


def test_an_app_whose_worker_exits_drains_and_no_job_is_charged() -> None:
    outcome = world(Strike(4.0, "drain_app"), task="quick")
    assert outcome.is_clean, outcome.explain()
    assert outcome.report.rescues == 0
    rows = [event.after for event in outcome.history if event.what == "job" and isinstance(event.after, JobRow)]
    assert not any(row.crashes for row in rows)
    assert len(leases_of(outcome)) + len(leases_of(outcome, f"{EMBEDDED} 0.2")) >= 2


def test_code_that_cannot_be_cancelled_runs_on_beside_another_attempt() -> None:
    outcome = world(Strike(4.0, "cut_app", seconds=60.0), task="deaf")
    assert outcome.is_clean, outcome.explain()
    assert not of_app(outcome, "process.end")
    assert outcome.report.overlaps_outside > 0


def ended(event: Event) -> bool:
    """Whether the event shows the end of a lease."""
    return isinstance(event.after, LeaseRow) and event.after.is_ended


# verdicts


def app(task: str) -> Tale:
    """A job of that task runs in a worker of a user's process."""
    tale = Tale().say("process.start", Phase.LIFE, WORKER, note=EMBEDDED).lease().job().job(task=task)
    return tale.claim()


def taken(tale: Tale) -> Tale:
    """The lease has run out, and another worker has the job while the first one's code runs on."""
    tale.later(40).end_lease(by=OTHER, is_judged=True)
    return tale.rescue().lease(OTHER_LEASE, OTHER).claim(SECOND, OTHER_LEASE, OTHER)


def test_only_code_that_cannot_be_cancelled_may_run_on_and_only_there() -> None:
    for task in ("deaf", "stuck", "thread_long"):
        assert taken(app(task)).check(OPEN).verdict("S8")
        assert not taken(Tale().lease().job().job(task=task).claim()).check(OPEN).verdict("S8")
    assert not taken(app("long")).check(OPEN).verdict("S8")


def test_a_blocked_event_loop_cancels_nothing() -> None:
    tale = app("long")
    other = UUID(int=77)
    tale.say("job", Phase.TRUTH, job=other, after=JobRow(State.RUNNING, SECOND, task="blocking"))
    tale.say("handler.start", Phase.LIFE, job=other, token=SECOND)
    assert taken(tale).check(OPEN).verdict("S8") is True


def test_an_app_starts_no_code_past_its_deadline() -> None:
    tale = Tale().say("process.start", Phase.LIFE, WORKER, note=EMBEDDED).lease().job().job(task="deaf")
    tale.job(state=State.RUNNING, token=FIRST, lease=LEASE, attempt=1)
    assert not tale.later(29).life("handler.start", FIRST).check(OPEN).verdict("S8")


def test_code_that_starts_in_an_app_does_not_excuse_code_of_another_worker() -> None:
    tale = Tale().say("process.start", Phase.LIFE, OTHER, note=EMBEDDED).lease().job().job(task="deaf").claim()
    assert not taken(tale).check(OPEN).verdict("S8")


def test_isolated_attempts_run_in_an_app_beside_other_jobs() -> None:
    def tale(note: str) -> Tale:
        history = Tale().say("process.start", Phase.LIFE, WORKER, note=note).lease()
        return history.job().job(policy=FRAGILE, crashes=1).claim()

    assert tale(EMBEDDED).check(ISOLATING).verdict("S9")
    assert not tale("worker").check(ISOLATING).verdict("S9")


def test_an_app_soon_opens_another_lease() -> None:
    def tale(seconds: float) -> Tale:
        history = Tale().say("process.start", Phase.LIFE, WORKER, note=EMBEDDED).say("calm", Phase.LIFE, "the world").lease()
        history.later(40).end_lease(by=OTHER, is_judged=True)
        return history.later(seconds).lease(OTHER_LEASE)

    assert tale(3.0).check(ZOMBIES).verdict("L5")
    assert not tale(30.0).check(ZOMBIES).verdict("L5")


@pytest.mark.parametrize("task", ["stuck", "creeping"])
def test_l5_an_application_may_end_late_only_if_its_event_loop_was_blocked(task: str) -> None:
    tale = app(task).say("calm", Phase.LIFE, "the world").later(40).end_lease(by=OTHER, is_judged=True)
    ended = tale.later(30.0).say("process.end", Phase.LIFE, WORKER)
    assert ended.check(ZOMBIES).verdict("L5") == (task == "stuck")


# threads of a process


def test_calls_of_a_thread_wait_for_a_busy_event_loop_and_answers_to_it_do_not() -> None:
    async def play(stage: Stage) -> None:
        process = stage.machine.process(EMBEDDED)
        received: list[tuple[str, float, Process | None]] = []
        near, far = LoopChannel.pair(stage.loop, stage.loop)
        process.freeze("busy")
        stage.loop.call_soon_threadsafe(
            lambda: received.append(("loop", stage.loop.time(), PROCESS.get())), context=stage.loop.context_of(process)
        )
        far.send(b"word")
        assert await near.receive() == b"word"
        assert not received
        await stage.clock.sleep(5.0)
        process.thaw("busy")
        await stage.clock.sleep(0.1)
        assert [(what, whose) for what, _, whose in received] == [("loop", process)]
        process.end(Exit(code=0))

    on_stage(play)
