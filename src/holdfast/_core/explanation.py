"""Explanations of a job's state: from plain facts to causes, each with its remedy. Nothing here decides about jobs."""

from collections.abc import Sequence
from datetime import datetime
from shlex import quote

from msgspec import Struct, structs

from holdfast._core.cause import Cause, Code, clock
from holdfast._core.job import PLACE_OF, RUNNER_UNAVAILABLE, HeldFor, Place, Reason, State
from holdfast._core.lane_cause import LaneFacts, lane_causes, position
from holdfast._core.limit_causes import limit_causes
from holdfast._core.limits import LimitView
from holdfast._core.member_causes import BECAUSE_OF_OTHERS, ended_cause, pending_causes
from holdfast._core.record import JobRecord
from holdfast._core.steps import FOREVER
from holdfast._core.workflow_view import WorkflowView


class Explanation(Struct, frozen=True):
    """The causes of a job's state, most important first. Without a cause, nothing keeps the job from starting."""

    state: State
    summary: str
    causes: tuple[Cause, ...]


class WorkerFacts(Struct, frozen=True, kw_only=True):
    """The facts about a worker that an explanation needs. Empty ``queues``: all. ``is_isolated``: it takes isolated jobs only.
    ``overdue`` is below zero while its lease lives."""

    name: str
    tasks: tuple[str, ...]
    queues: tuple[str, ...] = ()
    free: int = 0
    slots: int = 0
    is_isolated: bool = False
    is_draining: bool = False
    overdue: float = -1.0


Workers = tuple[WorkerFacts, ...]


def explain(
    job: JobRecord,
    *,
    is_paused: bool,
    paused_by: str = "",
    workers: Workers,
    now: datetime,
    limits: Sequence[LimitView] = (),
    lane: LaneFacts | None = None,
    workflow: WorkflowView | None = None,
) -> Explanation:
    """Return the causes of a job's state. ``limits``: those that count the job; ``lane``: the lane in which it waits.
    ``paused_by``: the recorded name and reason of its queue's pause, such as " by anna (a release)".

    ``workflow``: the one it belongs to; needed of a job that waits for others of it, is held by its pause, or ended because of them.
    """
    causes: tuple[Cause, ...]
    match PLACE_OF[job.state]:
        case Place.FINISHED if workflow is not None and job.reason in BECAUSE_OF_OTHERS:
            causes = (ended_cause(job, workflow),)
        case Place.FINISHED:
            causes = _of_finished(job)
        case Place.PENDING if workflow is not None and waits_for_workflow(job):
            causes = pending_causes(job, workflow)
        case Place.ACTIVE:
            causes = _of_active(job, workers)
        case Place.PENDING:
            causes = _of_pending(job, is_paused, paused_by, workers, now)
            if job.state is State.AVAILABLE:
                causes = _of_turns(causes, job, workers, now, limits=limits, lane=lane)
    summary = causes[0].message if causes else "it is due and a worker has a free slot: it starts within a poll"
    return Explanation(job.state, summary, causes)


def waits_for_workflow(job: JobRecord) -> bool:
    """Return whether a waiting job waits for others of its workflow, or for the end of its pause."""
    if job.member is None:
        return False
    return job.member.is_paused or (job.state is State.BLOCKED and job.awaits is None)


def _of_finished(job: JobRecord) -> tuple[Cause, ...]:
    ended = f"it {'was cancelled' if job.state is State.CANCELLED else job.state.value}"
    why = "" if job.reason is None else f": {job.reason.value}"
    again = f"`holdfast jobs retry {job.id}` runs it again"
    look = f"`holdfast jobs show {job.id}` shows its {'result' if job.state is State.COMPLETED else 'attempts'}"
    if job.member is not None and job.member.is_gate and job.member.flow == job.id:
        retry, look = f"`holdfast workflows retry {job.id}", f"`holdfast workflows show {job.id}` shows its nodes"
        again = f"{retry}` runs again what did not complete"
        if job.state is State.COMPLETED:
            again = f"{retry} --from NODE` runs a node again, and all behind it"
    finished = Cause(Code.FINISHED, f"{ended}{why}", f"{look}; {again}")
    match job.reason:
        case Reason.EXPIRED:
            return Cause(
                Code.EXPIRED, "it expired before a worker started it", f"{again}, and a longer expires_in helps"
            ), finished
        case Reason.STEPS_CHANGED:
            return _of_changed_code(job, Code.FINISHED), finished
        case Reason.WORKER_CRASHED:
            spent = f"no crash budget left: {job.crashes} of {job.policy.max_crashes} crashes"
            return _of_spent(spent, again), structs.replace(finished, remedy=look)
        case Reason.HANDLER_ERROR | Reason.STALLED | Reason.TIMED_OUT if job.failures >= job.policy.max_attempts:
            spent = f"no attempts left: {job.failures} of {job.policy.max_attempts} failed ({job.reason.value})"
            return _of_spent(spent, again), structs.replace(finished, remedy=look)
    return (finished,)


def _of_spent(what: str, again: str) -> Cause:
    return Cause(Code.BUDGET_SPENT, what, f"once the cause is fixed, {again} with fresh budgets")


def _of_active(job: JobRecord, workers: Workers) -> tuple[Cause, ...]:
    done = "" if job.fraction is None else f", {job.fraction:.0%} done"
    asked = ", asked to end" if job.cancel_requested else ""
    since = job.started_at or job.claimed_at
    at = "" if since is None else f" since {clock(since)}"
    does = "it runs" if job.state is State.RUNNING else "it is claimed and waits for a free slot"
    message = f"{does} on {job.worker}{at}{done}{asked}"
    running = Cause(Code.RUNNING, message, f"nothing to do; `holdfast jobs cancel {job.id}` asks it to end")
    owner = next((worker for worker in workers if worker.name == job.worker), None)
    if owner is not None and owner.overdue <= 0:
        return (running,)
    silent = "has ended" if owner is None else f"has been silent for {owner.overdue:.0f} s longer than it may"
    by_hand = f"`holdfast recover module:app --only {job.state.value}` does so once, by hand, also where App(recovery=…) switches it off"
    back = f"a supervisor (`holdfast worker`) takes the job back by itself; {by_hand}"
    return (Cause(Code.NO_LIVE_WORKER, f"its worker {job.worker} {silent}", back),)


def _of_pending(job: JobRecord, is_paused: bool, paused_by: str, workers: Workers, now: datetime) -> tuple[Cause, ...]:
    if job.state is State.HELD and job.held_for is HeldFor.STEPS:
        return (_of_changed_code(job, Code.HELD),)
    if job.state is State.HELD:
        decide = f"`holdfast jobs retry {job.id}` runs it again, `holdfast jobs cancel {job.id}` ends it"
        held = "its worker ended while it ran, and its task leaves the decision to an operator (on_crash='hold')"
        return (Cause(Code.HELD, held, decide),)
    if job.state is State.BLOCKED:
        return (_of_parents(job) if job.awaits is None else _of_signal(job, now),)
    causes = []
    if job.attempt == 0 and job.expires_at is not None and job.expires_at <= now:
        again = f"enqueue it again with a longer expires_in, or `holdfast jobs delete {job.id}`"
        causes.append(Cause(Code.EXPIRED, f"it expired at {clock(job.expires_at)} before a worker started it", again))
    if is_paused:
        causes.append(
            Cause(Code.PAUSED, f"its queue {job.queue} is paused{paused_by}", f"`holdfast queues resume {quote(job.queue)}`")
        )
    if job.state is State.SCHEDULED:
        again = f", after {job.failures + job.crashes} tries that ended badly" if job.failures + job.crashes else ""
        sooner = f"wait, or `holdfast jobs reschedule {job.id} --delay 0s` makes it due now"
        causes.append(Cause(Code.DUE_LATER, f"it is due at {clock(job.available_at)}{again}", sooner))
    return (*causes, *(_of_workers(job, workers) or _of_runners(job)))


def _of_runners(job: JobRecord) -> tuple[Cause, ...]:
    """Return why the last worker that claimed a `process=True` job returned it; empty if it did not."""
    if job.state is not State.AVAILABLE or job.error is None or job.error.type != RUNNER_UNAVAILABLE:
        return ()
    mend = "correct what it names, such as Runners(on_start=…), and restart the worker; until then it tries again within 30 s"
    return (Cause(Code.AT_CAPACITY, f"the last worker that claimed it could start no process for it: {job.error.message}", mend),)


def _of_changed_code(job: JobRecord, code: Code) -> Cause:
    why = "" if job.error is None else f": {job.error.message}"
    old = f"deploy the code that recorded its steps and run `holdfast jobs retry {job.id}`"
    new = f"`holdfast jobs retry {job.id} --fresh`, which forgets its steps and its checkpoint and does all of its work again"
    return Cause(code, f"its code was changed under its steps{why}", f"{old}, or {new}")


def _of_signal(job: JobRecord, now: datetime) -> Cause:
    ends = (job.available_at - now).total_seconds() < FOREVER / 2
    until = f", at most until {clock(job.available_at)}" if ends else ""
    send = f"`holdfast jobs signal {job.id} {quote(job.awaits or '')} null` sends it, with the JSON value that you write for null"
    return Cause(Code.BLOCKED, f"it waits for the signal {job.awaits!r}{until}", send)


def _of_parents(job: JobRecord) -> Cause:
    parents = "it waits for other jobs of its workflow"
    return Cause(Code.BLOCKED, parents, f"nothing to do; `holdfast jobs cancel {job.id}` ends it")


def _of_turns(
    causes: tuple[Cause, ...],
    job: JobRecord,
    workers: Workers,
    now: datetime,
    *,
    limits: Sequence[LimitView],
    lane: LaneFacts | None,
) -> tuple[Cause, ...]:
    """Return the causes with those of limits and lanes, which matter less than that no worker could take the job."""
    alive = {worker.name for worker in workers if worker.overdue <= 0}
    of_limits = limit_causes(limits, alive, now)
    others = tuple(each for each in causes if each.code is not Code.AT_CAPACITY)
    busy = tuple(
        structs.replace(each, message=f"{each.message}{position(lane)}") for each in causes if each.code is Code.AT_CAPACITY
    )
    if causes or of_limits:
        return (*others, *of_limits, *busy)
    slots = sum(worker.slots for worker in workers if worker.name in alive and job.task in worker.tasks)
    return lane_causes(lane, slots)


def _of_workers(job: JobRecord, workers: Workers) -> tuple[Cause, ...]:
    """Return the first condition of a claim that no worker meets, as a cause; empty if some worker would take the job."""
    start = f"start one: `holdfast worker module:app --queues {quote(job.queue)}`"
    live = [worker for worker in workers if worker.overdue <= 0 and not worker.is_draining]
    if not live:
        return (Cause(Code.NO_LIVE_WORKER, "no worker is alive", start),)
    serving = [worker for worker in live if not worker.queues or job.queue in worker.queues]
    if not serving:
        return (Cause(Code.NO_LIVE_WORKER, f"no live worker serves the queue {job.queue}", start),)
    knowing = [worker for worker in serving if job.task in worker.tasks]
    if not knowing:
        names = f"the code of {job.task}, or a newer release of it,"
        remedy = f"start a worker that imports {names} with `holdfast worker module:app`; `holdfast workers list` shows those there are"
        return (Cause(Code.UNKNOWN_TASK, f"no live worker knows the task {job.task}", remedy),)
    is_last = job.policy.needs_isolation(job.crashes)
    if is_last and not any(worker.is_isolated and worker.free > 0 for worker in knowing):
        isolated = "one more crash ends it, so it runs isolated, in a worker that a supervisor starts for it alone"
        fresh = f"wait for it, or `holdfast jobs retry {job.id}` after `holdfast jobs cancel {job.id}` gives it fresh budgets"
        return (Cause(Code.AT_CAPACITY, isolated, fresh),)
    if not is_last and not any(worker.free > 0 and not worker.is_isolated for worker in knowing):
        more = "wait, or start one more: `holdfast worker module:app`"
        return (Cause(Code.AT_CAPACITY, "all workers that know its task are busy", more),)
    return ()
