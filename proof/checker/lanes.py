"""Lanes and limits: no limit is exceeded, a lane with free slots is served in its turn, and a claim takes what it may take."""

from collections import Counter, defaultdict
from uuid import UUID

from msgspec import Struct, field

from holdfast._core.job import PLACE_OF, Place, Token
from holdfast._core.limits import Limit, Scope
from holdfast._core.requests import ClaimKind
from proof.checker.history import FAIL_OVER, Event, JobRow, Phase
from proof.checker.lane_rows import ClaimRow, LimitRow, QueueRow
from proof.checker.lane_state import Lane, LaneState, Rates, time_of
from proof.checker.verdicts import CheckContext, Seers

MOST_OF_ONE_KIND = 2
"""The claims of one kind that a worker may make one after the other while jobs of the other kind are due: a limit may just be set."""


class _Passed(Struct, frozen=True):
    """A claim that took jobs: how many of each lane, and the lanes with due jobs of which it took none."""

    claim: ClaimRow
    served: Counter[Lane]
    passed: frozenset[Lane]
    due: frozenset[Lane]
    other: UUID | None


class _Wait(Struct):
    """How long a lane waits for its turn: the jobs that its worker took from each other lane, and how many their turns have.

    ``over``: the jobs after the end of a turn, in the claim in which it ends. A claim asks for them without regard to what is left of the
    turn (``_core/lanes``: ``looked_at`` and ``deal``), so a begun turn may have as many more as its last claim has jobs, less one.
    """

    jobs: Counter[Lane] = field(default_factory=Counter)
    turns: dict[Lane, int] = field(default_factory=dict)
    over: int = 0

    def see(self, lane: Lane, jobs: int, turn: int) -> None:
        """Count the jobs that a claim took from another lane, whose turn has at most that many in such a claim."""
        turn = self.turns[lane] = max(turn, self.turns.get(lane, 0))
        left = turn - self.jobs[lane]
        if 0 < left < turn:
            self.over += max(0, jobs - left)
        self.jobs[lane] += jobs


class _Turns(Struct):
    """The turns of one worker. ``in_a_row``: the claims of one kind that passed due jobs of the other one."""

    waits: dict[ClaimKind, dict[Lane, _Wait]] = field(default_factory=dict)
    in_a_row: int = 0
    kind: ClaimKind = ClaimKind.PLAIN


class Lanes:
    """S12, S24, L13 and L14. Who claims is judged by what the worker received: it goes on from the last answer that reached it."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._state = LaneState()
        self._promised = Rates()  # the starts since the limit was set or changed last
        self._newest, self._newest_at = 0, 0.0  # the latest start, by the store's clock and in seconds of the world
        self._turns: defaultdict[UUID, _Turns] = defaultdict(_Turns)
        self._unanswered: dict[Token, _Passed] = {}

    def seers(self) -> Seers:
        """Return the events that these rules read; none where lanes are not judged."""
        if not self._context.rules.has_lanes:
            return {}
        return {
            "job": self._see_row,
            "queue": self._see_queue,
            "limit": self._see_limit,
            "queue.settings": self._see_settings,
            "claim.made": self._see_claim,
            "claim": self._see_answer,
        }

    def finish(self) -> None:
        """Do nothing: these rules need no check at the end."""

    # what is set

    def _see_queue(self, event: Event) -> None:
        verb, _, queue = event.note.partition(" ")
        (self._state.paused.add if verb == "paused" else self._state.paused.discard)(queue)

    def _see_limit(self, event: Event) -> None:
        before, after = (each if isinstance(each, LimitRow) else None for each in (event.before, event.after))
        if event.by is not None and event.by.verb == FAIL_OVER:
            self._forget_rates()
        if after is not None:
            self._state.limits[after.scope] = after.limit
        elif before is not None:
            self._state.limits.pop(before.scope, None)
            self._state.rates.forget(before.scope)
        if before is not None and before != after:
            self._promised.forget(before.scope)

    def _see_settings(self, event: Event) -> None:
        """Take over new lengths of turns; turns that have begun are not judged."""
        if isinstance(event.after, QueueRow):
            self._state.settings[event.note] = event.after
        else:
            self._state.settings.pop(event.note, None)
        self._turns.clear()
        self._unanswered.clear()

    def _forget_rates(self) -> None:
        self._state.has_lost_rates = True
        self._promised.forget_all()

    # slots and starts

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after = (each if isinstance(each, JobRow) else None for each in (event.before, event.after))
        self._state.see(event.job, after)
        if event.by is not None and event.by.verb == FAIL_OVER:
            self._forget_rates()
        elif before is not None and after is not None:
            was_active, is_active = (PLACE_OF[row.state] is Place.ACTIVE for row in (before, after))
            if is_active and not was_active:
                self._expect_room(event.job, after)

    def _expect_room(self, job: UUID, row: JobRow) -> None:
        """Check that a claim took a slot and a start of each limit. Rows that were active before a limit was lowered may stay."""
        over = next(self._state.full(row), None)
        scope, key, active, most = over or (None, None, 0, 0)
        text = "with it {} jobs of {} are active, and its limit is {}"
        self._expect("S12", over is None, job, text, active, _named(scope, key), most)
        now = time_of(row)
        if now < self._newest:  # the clock was set back; until then it may have gone on since the newest start
            self._promised.forget_unused(self._newest + round((self._context.now - self._newest_at) * 1e6))
        if now >= self._newest:
            self._newest, self._newest_at = now, self._context.now
        for where, which, limit in self._state.limits_of(row):
            self._expect_rate(job, where, which, limit, now)

    def _expect_rate(self, job: UUID, scope: Scope, key: str | None, limit: Limit, now: int) -> None:
        rate = limit.rate if key is None else limit.rate_per_key
        if rate is not None:
            is_allowed = self._promised.is_allowed((scope, key), limit, now)
            text = "more jobs of {} started than {} with a burst of {} allows"
            self._expect("S24", is_allowed, job, text, _named(scope, key), rate, limit.burst)
            self._promised.start((scope, key), limit, now)
            self._state.rates.start((scope, key), limit, now)

    # claims

    def _see_claim(self, event: Event) -> None:
        claim = event.after
        if not isinstance(claim, ClaimRow) or not claim.is_entitled or claim.is_named:
            return
        due = {job: each.lane for job, each in self._state.claimable(claim) if not self._context.locked[job]}
        if claim.is_short and claim.is_whole:
            left = next(iter(due), None)
            text = "a {} claim for {} jobs took {} and left no lane out, and it might have taken this one"
            self._expect("L14", left is None, left, text, claim.kind, claim.room, len(claim.taken))
        turns = self._turns[claim.lease]
        if turns.kind is not claim.kind:
            turns.kind, turns.in_a_row = claim.kind, 0
        if claim.taken:
            self._unanswered[claim.taken[0][1]] = self._passed(claim, frozenset(due.values()))

    def _passed(self, claim: ClaimRow, due: frozenset[Lane]) -> _Passed:
        rows = [self._state.rows[job] for job, _ in claim.taken if job in self._state.rows]
        served = Counter((row.priority, row.queue, row.lane) for row in rows)
        rings = {priority for priority, _, _ in served}
        passed = frozenset(lane for lane in due if lane[0] in rings and lane not in served)
        kind = ClaimKind.PLAIN if claim.kind is ClaimKind.LIMITED else ClaimKind.LIMITED
        others = (job for job, _ in self._state.claimable(claim, kind=kind) if not self._context.locked[job])
        return _Passed(claim, served, passed, due, next(others, None))

    def _see_answer(self, event: Event) -> None:
        """Go on from a claim whose answer reached its worker: with the others it does not know that a lane was served."""
        if event.phase is not Phase.OK or event.token is None:
            return
        passed = self._unanswered.pop(event.token, None)
        if passed is None:
            return
        turns, kind = self._turns[passed.claim.lease], passed.claim.kind
        turns.waits[kind] = self._waits_after(turns.waits.get(kind, {}), passed)
        turns.in_a_row = turns.in_a_row + 1 if passed.other is not None and turns.kind is kind else 0
        text = "its worker made {} {} claims one after the other, and none of the other kind, which would have taken it"
        is_alternating = turns.in_a_row <= MOST_OF_ONE_KIND
        self._expect("L13", is_alternating, passed.other, text, turns.in_a_row, kind)

    def _waits_after(self, before: dict[Lane, _Wait], passed: _Passed) -> dict[Lane, _Wait]:
        after = {lane: wait for lane, wait in before.items() if lane in passed.due and lane not in passed.served}
        for lane in passed.passed:
            wait = after.setdefault(lane, _Wait())
            for other, jobs in passed.served.items():
                if other[0] == lane[0]:
                    wait.see(other, jobs, self._state.turn_of(other, passed.claim.room))
            taken, most = wait.jobs.total(), sum(wait.turns.values()) + wait.over + passed.claim.room
            text = "its worker took {} jobs from {} other lanes before the lane {} of the queue {}, and their turns have {}"
            is_soon = taken <= most
            _, queue, key = lane
            self._expect("L13", is_soon, self._first_of(lane), text, taken, len(wait.turns), repr(key), queue, most)
        return after

    def _first_of(self, lane: Lane) -> UUID | None:
        return next((job for job, waiting in self._state.waiting.items() if waiting.lane == lane), None)


def _named(scope: Scope | None, key: str | None) -> str:
    return f"{scope}" if key is None else f"the key {key!r} of {scope}"
