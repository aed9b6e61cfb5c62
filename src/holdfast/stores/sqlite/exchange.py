"""One exchange with a file: the transitions are settled in the write that takes the first jobs, or in a write alone.

A claim looks at lanes without the file's lock, then takes their jobs in one write, in which all is judged again. So no Python runs while
the file is locked.
"""

from collections.abc import Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core.answers import Answer, ExchangeAnswer
from holdfast._core.children import Children
from holdfast._core.job import State
from holdfast._core.lanes import Cursor, Turn, moved_on
from holdfast._core.lifecycle import Transition
from holdfast._core.limits import ready_after
from holdfast._core.requests import ClaimKind, ClaimRequest
from holdfast.databases.sqlite.values import Values
from holdfast.stores.sqlite import limits
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite import records as rows
from holdfast.stores.sqlite import results as answers
from holdfast.stores.sqlite.claimed_results import with_results
from holdfast.stores.sqlite.database import StoreDatabase
from holdfast.stores.sqlite.flow_moves import FileFlows
from holdfast.stores.sqlite.lanes import Look, Rounds, cursor_after, dealt_out, may_be_cut
from holdfast.stores.sqlite.steps import is_active, keep_steps

TRIES = 4
"""How often a claim looks and takes at most, because others took jobs in between or lanes are left."""


class Exchange:
    """One exchange. ``packed``: the parameters of its transitions."""

    def __init__(self, database: StoreDatabase, transitions: Sequence[Transition], packed: Values, rounds: Rounds) -> None:
        self._database, self._transitions, self._packed, self._rounds = database, transitions, packed, rounds
        self._is_settled, self._are_all_applied = not transitions, True
        self._found: list[rows.Row] = []

    def run(self, request: ClaimRequest | None) -> ExchangeAnswer:
        """Settle, claim and return the answer."""
        answer = self._settle_and_claim(request)
        again = [] if self._are_all_applied else self._new_members()
        if not again:
            return answer
        Exchange(self._database, again, packing.transitions(again), self._rounds).run(None)
        return structs.replace(answer, answers=self._answers())

    def _settle_and_claim(self, request: ClaimRequest | None) -> ExchangeAnswer:
        if any(transition.has_flow for transition in self._transitions):
            return self._database.atomically("exchange", lambda: self._run_with_members(request))
        is_limited = request is not None and request.ids is None and request.kind is ClaimKind.LIMITED
        if is_limited or any(transition.forgets_steps for transition in self._transitions):
            return self._database.atomically("exchange", lambda: self._run(request))
        return self._run(request)

    def _run(self, request: ClaimRequest | None) -> ExchangeAnswer:
        cursor, is_whole = ((), True) if request is None else self._claim(request)
        if not self._is_settled:
            self._write("exchange", packing.NO_CLAIM)
        if request is None:
            return ExchangeAnswer(self._answers())
        has_limited = self._database.read("has_limits") == [(1,)]
        claims = with_results(self._database, rows.claims_of(self._found, request))
        return ExchangeAnswer(self._answers(), claims, cursor, is_whole, has_limited)

    def _run_with_members(self, request: ClaimRequest | None) -> ExchangeAnswer:
        """Settle members of workflows with what depends on them, then claim: the claim may take what they have released."""
        members = [transition.job for transition in self._transitions if transition.has_flow]
        suspended, flows = self._suspending(), FileFlows(self._database)
        flows.write(members, lambda: self._write("exchange", packing.NO_CLAIM))
        states = answers.states(self._database.read("states", **packing.ids([*suspended])))
        for job, children in suspended.items():
            if states.get(job) is State.BLOCKED:  # else its cancellation was requested
                keep_steps(self._database, job, children.records)
                flows.adopt(job, children)
        return self._run(request)

    def _new_members(self) -> list[Transition]:
        """Return the transitions of jobs on which others depend since they were claimed, with their flows."""
        flows = {each.id: each.flow for each in FileFlows(self._database).members([each.job for each in self._transitions])}
        return [
            structs.replace(each, flow=flows[each.job]) for each in self._transitions if each.job in flows and not each.has_flow
        ]

    def _suspending(self) -> dict[UUID, Children]:
        """Return the jobs that are to wait for children, and whose tokens are valid."""
        return {
            transition.job: transition.children
            for transition in self._transitions
            if transition.children is not None and is_active(self._database, transition.job, transition.token)
        }

    def _claim(self, request: ClaimRequest) -> tuple[Cursor, bool]:
        if request.ids is not None:
            self._take("exchange_ids", request, packing.claim_ids(request, (job.bytes for job in request.ids)))
            return request.cursor, True
        if request.kind is ClaimKind.LIMITED:
            self._write("exchange", packing.NO_CLAIM)  # so that the slots that it frees are counted as free
        elif any(transition.to is State.AVAILABLE and not transition.delay for transition in self._transitions):
            self._write("exchange", packing.NO_CLAIM)  # so that the look sees what it puts back
        cursor, is_whole = request.cursor, True
        for part in request.parts():
            if is_whole:
                claim = self._claim_within_limits if part.kind is ClaimKind.LIMITED else self._claim_part
                cursor, is_whole = claim(structs.replace(part, cursor=cursor))
        return cursor, is_whole

    def _claim_part(self, part: ClaimRequest) -> tuple[Cursor, bool]:
        """Claim the jobs of one part; return the cursor, and whether all lanes were seen or the part is full."""
        if self._rounds.may_be_single(part.lease) and (answer := self._claim_single_lane(part)) is not None:
            return answer
        for _ in range(TRIES):
            part, walks = self._rounds.resumed(part)
            look = Look(self._database, part, walks, is_settled=self._is_settled)
            view = look.view()
            self._rounds.note(part.lease, len(view.lanes))
            if not view.lanes:
                cursor = cursor_after(view, part.cursor)
                if view.end is not None:
                    self._rounds.remember(part, cursor, look.rest())
                return cursor, view.end is None
            dealt = dealt_out(self._database, view, part)
            query = "exchange" if dealt.is_even() else "exchange_lanes"
            taken = self._take(query, part, packing.claim_ranges(part, dealt.ranges()))
            if taken >= part.room:
                return dealt.cursor, True
            cursor = cursor_after(view, dealt.cursor) if taken else part.cursor
            if view.end is None and taken >= dealt.least:
                return cursor, True
            part = part.rest(taken, cursor)
        return part.cursor, False

    def _claim_within_limits(self, part: ClaimRequest) -> tuple[Cursor, bool]:
        """Claim the jobs of one part within their limits; return the cursor, and whether no due job was left out."""
        uses = limits.uses_of(self._database)
        part, walks = self._rounds.resumed(part)
        look = Look(self._database, part, walks, is_settled=self._is_settled, caps=limits.caps_of(uses))
        view = look.view()
        if not view.lanes:
            cursor = cursor_after(view, part.cursor)
            if view.end is not None:
                self._rounds.remember(part, cursor, look.rest())
            return cursor, view.end is None
        is_cut = may_be_cut([lane.head() for lane in view.lanes], view.end, part.room)
        dealt = limits.choose(self._database, view, part, uses, is_cut=is_cut)
        jobs = [candidate.id for candidate in dealt.taken]
        if self._take("exchange_ids", part, {**packing.claim_ids(part, jobs), "within_limits": True}) == len(jobs):
            limits.pay(self._database, ready_after([candidate.seat for candidate in dealt.taken], uses))
        is_full = len(jobs) >= part.room
        cursor = dealt.cursor if is_full or not dealt.is_whole else cursor_after(view, dealt.cursor)
        return cursor, is_full or (view.end is None and dealt.is_whole)

    def _claim_single_lane(self, part: ClaimRequest) -> tuple[Cursor, bool] | None:
        """Claim from the only lane of which jobs wait, if there is just one; None: there may be others, or others took its jobs."""
        found = self._database.read("single_lane", **packing.claimable(list(part.tasks), part.queues, part.isolated))
        if not found:
            return part.cursor, True
        (task, priority, queue, key, is_single, due), *others = found
        if others or not is_single or not (part.queues is None or queue in part.queues):
            return None
        if not due:
            return part.cursor, True
        taken = self._take("exchange", part, packing.claim_ranges(part, [(task, priority, queue, key, part.room)]))
        return (moved_on(part.cursor, [Turn(priority, queue, key)]), True) if taken else None

    def _take(self, query: str, part: ClaimRequest, values: Values) -> int:
        """Settle, if that is to be done, take jobs, and return how many were taken."""
        self._write(query, values)
        before = len(self._found)
        self._found = self._database.read("exchange_claims", **{**values, "room": before + part.room})
        return len(self._found) - before

    def _write(self, query: str, values: Values) -> None:
        forgetful = {} if self._is_settled else self._forgetful()
        self._database.write(query, **(packing.NO_TRANSITIONS if self._is_settled else self._packed), **values)
        if not self._is_settled:
            self._is_settled = True
            self._are_all_applied = self._database.read("exchange_tally") == [(len(self._transitions),)]
            if completed := [job for job, to in forgetful.items() if to is State.COMPLETED]:
                self._database.write("forget_steps", **packing.ids(completed))
                self._database.write("forget_signals", **packing.ids(completed))
            if restarted := [job for job, to in forgetful.items() if to is State.AVAILABLE]:
                self._database.write("forget_restarted_steps", **packing.ids(restarted))
                self._database.write("forget_checkpoints", **packing.ids(restarted))

    def _forgetful(self) -> dict[UUID, State]:
        """Return the jobs that are to lose their steps, and what they become: by the first transition of each that has its token."""
        asked = {transition.job for transition in self._transitions if transition.forgets_steps}
        valid = dict[UUID, Transition]()
        for each in self._transitions if asked else ():
            if each.job in asked and each.job not in valid and is_active(self._database, each.job, each.token):
                valid[each.job] = each
        return {job: each.to for job, each in valid.items() if each.forgets_steps}

    def _answers(self) -> tuple[Answer, ...]:
        if self._are_all_applied:
            return (Answer.APPLIED,) * len(self._transitions)
        named = packing.named(self._transitions)
        return answers.settled(self._transitions, self._database.read("exchange_answers", **named))
