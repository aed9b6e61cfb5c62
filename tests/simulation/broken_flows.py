"""Workflows, steps and signals with one missing guard: stores, and workers as context managers."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core import flow_moves, graph, graph_steering
from holdfast._core.answers import Answer, ExchangeAnswer, ReopenAnswer
from holdfast._core.book import workflows as book_workflows
from holdfast._core.book.book import Book
from holdfast._core.book.moment import Moment
from holdfast._core.flow_moves import FlowMoves
from holdfast._core.graph import Ended, Link, Links, Verdict, Waiting
from holdfast._core.job import PLACE_OF, Claim, Place, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.member import Input
from holdfast._core.record import JobRecord
from holdfast._core.requests import ClaimRequest
from holdfast._core.steps import Signal, SignalAnswer, SignalTaken, StepKey, StepRecord
from holdfast._core.workflow import Flow, Output
from holdfast._engine.tasks.registry import TaskDefinition
from holdfast._engine.tasks.steps import Step, StepLog
from holdfast._engine.worker.job_inputs import Asked, JobInputs
from tests.simulation.patching import patched


class ReleasedLater(Book):
    """The dependents of a member are released by the write after the one that moved it."""

    def _pass_on(self, moved: Sequence[UUID], now: Moment) -> None:
        later, self._later = getattr(self, "_later", ()), tuple(moved)
        super()._pass_on(later, now)


class LoweredAgain(Book):
    """A settle that is sent again lowers the counters of dependents once more."""

    def exchange(self, now: Moment, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        answer = super().exchange(now, transitions, request)
        again = [each.job for each, given in zip(transitions, answer.answers, strict=True) if given is Answer.APPLIED]
        finished = [row.id for row in self._rows(again) if PLACE_OF[row.state] is Place.FINISHED]
        seen: set[UUID] = getattr(self, "_settled", set())
        self._pass_on([job for job in finished if job in seen], now)
        self._settled = seen | set(finished)
        return answer


class ExpirePastTheFlow(Book):
    """A member that expires is not passed on to its dependents."""

    def expire(self, now: Moment, limit: int) -> Any:
        with patched(self, _pass_on=lambda moved, now: None):
            return super().expire(now, limit)


class CancelPastTheFlow(Book):
    """A waiting member that an operator cancels is not passed on to its dependents."""

    def request_cancel(self, now: Moment, ids: Sequence[UUID]) -> dict[UUID, State]:
        with patched(self, _pass_on=lambda moved, now: None):
            return super().request_cancel(now, ids)


class DeletePastTheFlow(Book):
    """An operator may delete members of an unfinished workflow."""

    def _is_needed(self, row: JobRecord) -> bool:
        return False


class ReopenWithoutDependents(Book):
    """A finished member is reopened like any job, and what failed because of it stays failed."""

    def reopen(self, now: Moment, ids: Sequence[UUID], *, is_fresh: bool = False) -> ReopenAnswer:
        for row in self._rows(ids):
            if row.member is not None and PLACE_OF[row.state] is Place.FINISHED and row.id != row.member.flow:
                self._remember_attempt(row)
                self._move(self._reopened(row, now.wall, is_fresh=is_fresh))
        return super().reopen(now, ids, is_fresh=is_fresh)


class MembersForgottenFirst(Book):
    """Members are pruned by their own age, also while their workflow goes on."""

    def _is_kept_for_root(self, row: JobRecord) -> bool:
        return False

    def _index_members_without(self, root: UUID, *, is_root_here: bool) -> None:
        pass


class MembersLeftBehind(Book):
    """A root is pruned without its members."""

    def _members_kept_for(self, row: JobRecord) -> list[JobRecord]:
        return []


class OldOutputs(Book):
    """The result that a member got from another one is kept, also when that one runs again."""

    def outputs(self, now: Moment, ids: Sequence[UUID]) -> Any:
        known: dict[UUID, Output] = getattr(self, "_outputs", {})
        self._outputs = {**super().outputs(now, ids), **known}
        return {job: output for job, output in self._outputs.items() if job in ids}


class StepWithoutToken(Book):
    """A step is recorded for a job under any token."""

    def record_step(self, now: Moment, job: UUID, token: Token, record: StepRecord) -> bool:
        if job in self._all.jobs:
            self._all.steps.setdefault(job, {}).setdefault(record.key, record)
        return super().record_step(now, job, token, record)


class StepWrittenAgain(Book):
    """The record of a step is replaced by that of a copy of the call, or of another attempt."""

    def record_step(self, now: Moment, job: UUID, token: Token, record: StepRecord) -> bool:
        is_written = super().record_step(now, job, token, record)
        if is_written:
            self._all.steps[job][record.key] = record
        return is_written

    def steps(self, now: Moment, job: UUID) -> Any:
        found = super().steps(now, job)
        return structs.replace(found, records=found.records[:-1])


class SignalWithoutLock(Book):
    """A job that suspends looks for signals as they were before its last call: one that came since does not wake it."""

    def _has_signal(self, job: UUID, name: str | None) -> bool:
        return False


class SignalKeptAfterUse(Book):
    """A signal that a job has consumed stays, and is consumed again."""

    def take_signal(self, now: Moment, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        kept = self._all.signals.get(job, ())
        taken = super().take_signal(now, job, token, name, record)
        if kept:
            self._all.signals[job] = kept
        return taken


class SignalPerCopy(Book):
    """Each copy of a signal's call is kept as another signal."""

    def signal(self, now: Moment, job: UUID, signal: Signal) -> SignalAnswer:
        self._all.receipts.pop(signal.call, None)
        return super().signal(now, job, signal)


class SignalWithoutToken(Book):
    """A signal is consumed for a job under any token."""

    def take_signal(self, now: Moment, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        row = self._all.jobs.get(job)
        if row is None or row.token.claim is None:
            return super().take_signal(now, job, token, name, record)
        with patched(self, _active=lambda job, token: row):
            return super().take_signal(now, job, token, name, record)


class WakesNoJob(Book):
    """A signal is kept, and the job that waits for it stays where it is."""

    def signal(self, now: Moment, job: UUID, signal: Signal) -> SignalAnswer:
        row = self._all.jobs.get(job)
        if row is None or row.awaits is None:
            return super().signal(now, job, signal)
        self._all.jobs[job] = structs.replace(row, awaits=None)
        try:
            return super().signal(now, job, signal)
        finally:
            self._all.jobs[job] = row


class DeadlinesUnseen(Book):
    """The deadline of a workflow is judged by repairs only, and not by the moves of its members."""

    def _pass_on(self, moved: Sequence[UUID], now: Moment) -> None:
        with patched(FlowMoves, is_overdue=lambda self, flow: False):
            super()._pass_on(moved, now)


def release_ignores_pause() -> AbstractContextManager[None]:
    """What is released while its workflow is paused becomes available."""
    hold = book_workflows._BookMoves.hold
    is_first = dict[UUID, bool]()

    def once(self: book_workflows._BookMoves, flow: UUID) -> None:
        if is_first.setdefault(flow, True):
            hold(self, flow)
            is_first[flow] = False

    return patched(book_workflows._BookMoves, hold=once)


def pause_moves_nothing() -> AbstractContextManager[None]:
    """A pause is written, and the members that are available stay so."""
    return patched(book_workflows._BookMoves, hold=lambda self, flow: None)


def resume_passes_nothing_on() -> AbstractContextManager[None]:
    """The failures that a pause held up are not passed on by the resume."""

    def resume(found: graph.Graph, flow: Flow, failed: Any) -> Any:
        steered = graph_steering.resume(found, flow, failed)
        return structs.replace(steered, cascade=graph.Cascade({}, {}))

    return patched(flow_moves, resume=resume)


def resume_leaves_the_held() -> AbstractContextManager[None]:
    """A resume returns no member to its position."""
    return patched(book_workflows._BookMoves, resume=lambda self, flow: None)


def repairs_of_paused_flows() -> AbstractContextManager[None]:
    """A repair counts the failure that a pause holds up."""
    return patched(graph, is_held_back=lambda ended, flow: False)


def gates_decide_early() -> AbstractContextManager[None]:
    """A root ends as soon as its result is clear, while members run."""
    decide = graph.decide

    def early(child: Waiting, flow: Flow) -> Verdict | None:
        return decide(structs.replace(child, waits=0) if child.is_gate and child.waits < child.needs else child, flow)

    return patched(graph, decide=early)


def failures_count_as_successes() -> AbstractContextManager[None]:
    """A parent that fails lowers both counters."""

    def pass_on(ended: Sequence[Ended], flow: Flow, links: Links) -> graph.Cascade:
        return graph.pass_on([structs.replace(each, has_completed=True) for each in ended], flow, links)

    return patched(flow_moves, pass_on=pass_on)


def any_waits_for_all() -> AbstractContextManager[None]:
    """A join that needs some of its parents waits until all have ended."""
    decide = graph.decide

    def late(child: Waiting, flow: Flow) -> Verdict | None:
        verdict = decide(child, flow)
        return None if verdict is Verdict.RELEASE and child.waits > 0 else verdict

    return patched(graph, decide=late)


def cancel_leaves_the_available() -> AbstractContextManager[None]:
    """A cancelled workflow ends its blocked members only."""

    def cancel(found: graph.Graph, flow: Flow, reason: Any) -> Any:
        steered = graph_steering.cancel(found, flow, reason)
        left = {job for job, each in found.members.items() if each.state in (State.AVAILABLE, State.HELD)}
        verdicts = {job: verdict for job, verdict in steered.cascade.verdicts.items() if job not in left}
        return structs.replace(steered, cascade=structs.replace(steered.cascade, verdicts=verdicts))

    return patched(flow_moves, cancel=cancel)


def siblings_in_one_write_lower_once() -> AbstractContextManager[None]:
    """Two parents that end in one write lower the counters of their child once."""
    links = book_workflows._BookMoves.links

    def first_of_each(self: book_workflows._BookMoves, parents: Sequence[UUID]) -> Iterator[Link]:
        seen = set[UUID]()
        for link in links(self, parents):
            if link.child.id not in seen:
                seen.add(link.child.id)
                yield link

    return patched(book_workflows._BookMoves, links=first_of_each)


def no_repairs() -> AbstractContextManager[None]:
    """Damaged counters are never found."""
    return patched(flow_moves, repairs=lambda graph, flow: ())


def steps_by_position() -> Any:
    """A step is known by its number in the order of calls."""

    def key(self: Step | StepRecord) -> StepKey:
        return self.name if self.name[0] == ":" else "step", self.place

    return _keyed(key)


def steps_by_name_only() -> Any:
    """A step is known by its name: the second use of a name gets the result of the first."""
    return _keyed(lambda self: (self.name, 1))


@contextmanager
def _keyed(key: Any) -> Iterator[None]:
    with patched(StepRecord, key=property(key)), patched(Step, key=property(key)):
        yield


def timeouts_not_recorded() -> AbstractContextManager[None]:
    """The timeout of a wait is raised, and no step records it."""
    end = StepLog.end

    async def forget(self: StepLog, step: Step, result: bytes | None) -> None:
        if result is None:
            self.drop(step)
        else:
            await end(self, step, result)

    return patched(StepLog, end=forget)


def inputs_read_once() -> AbstractContextManager[None]:
    """A member keeps the results that its first attempt got."""
    filled = JobInputs.filled
    kept = dict[tuple[UUID, tuple[Input, ...]], Claim]()

    async def once(self: JobInputs, claim: Claim, task: TaskDefinition, asked: Asked) -> Claim:
        key = claim.job.id, claim.inputs
        first = kept[key] = kept.get(key) or await filled(self, claim, task, asked)
        return structs.replace(claim, payload=first.payload, inputs=(), failed=first.failed)

    return patched(JobInputs, filled=once)
