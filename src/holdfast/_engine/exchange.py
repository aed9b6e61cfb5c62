"""Settle what ended and claim for free slots, in one write; audit what the store thinks we hold."""

from collections.abc import Callable, Sequence
from uuid import UUID

from msgspec import structs

from holdfast._core import lifecycle
from holdfast._core.job import AttemptOutcome, Claim, Hold, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.policy import Policy
from holdfast._engine.events import EventName, Events
from holdfast._engine.executor import Ended, Executor, Stop
from holdfast._engine.heart import Heart
from holdfast._engine.reporter import Reporter
from holdfast._ports.clock import Chance
from holdfast._ports.store import Answer, ClaimRequest, LastTries, Note, Store

SETTLE_LIMIT = 1000
SOON = 0.05
"""Part of the poll interval to wait when a job is due and yet none was claimed."""
Key = tuple[UUID, Token]


class Exchange:
    """The worker's one door to ownership: nothing is claimed or settled elsewhere."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        reporter: Reporter,
        heart: Heart,
        *,
        lease: UUID,
        worker: str,
        wanted: Callable[[bool], tuple[dict[str, Policy], int, bool]],
        queues: tuple[str, ...] | None,
        last_tries: LastTries,
        poll_interval: float,
        events: Events,
        chance: Chance,
    ) -> None:
        self._store = store
        self._executor = executor
        self._reporter = reporter
        self._heart = heart
        self._lease = lease
        self._worker = worker
        self._wanted = wanted
        self._queues = queues
        self._last_tries = last_tries
        self._poll_interval = poll_interval
        self._events = events
        self._chance = chance
        self._ended: dict[Key, Ended] = {}
        self._late: list[Note] = []
        self._abandoned: set[Key] = set()
        self._claims_in_flight: set[UUID] = set()
        self._needs_audit = False
        self._is_in_doubt = False
        self.is_closed = False
        self.is_idle = False
        self.has_claimed = self._was_full = self._is_narrow = False
        self.next_due: float | None = 0.0

    @property
    def undelivered(self) -> tuple[Transition, ...]:
        """Outcomes the store has not answered yet."""
        return tuple(ended.transition for ended in self._ended.values() if ended.transition is not None)

    @property
    def is_delivered(self) -> bool:
        """Whether the store has answered everything."""
        return not self._ended and not self._late

    def close(self) -> None:
        """Claim nothing more."""
        self.is_closed = True

    def add(self, ended: Ended) -> None:
        """A handler's code has stopped; its outcome goes with the next step."""
        hold = ended.claim.hold
        if ended.transition is not None:
            self._ended[hold.job, hold.token] = ended
        else:
            self._lose(ended)

    async def step(self) -> float:
        """One exchange; seconds until the next one is worth it."""
        if self._needs_audit:
            await self.audit()
        batch = tuple(self._ended.items())[:SETTLE_LIMIT]
        # Who hears no answers must not claim: it would take jobs, release them unheard and take them again, for ever.
        was_in_doubt = self._is_in_doubt
        request = None if was_in_doubt else self._request()
        claimed = await self._exchange(batch, request) if batch or request is not None or was_in_doubt else 0
        await self._annotate()
        return 0.0 if was_in_doubt else await self._pause(request, claimed=claimed)

    async def _exchange(self, batch: Sequence[tuple[Key, Ended]], request: ClaimRequest | None) -> int:
        await self._reporter.write_last_words()
        transitions = tuple(ended.transition for _, ended in batch if ended.transition is not None)
        if request is not None:
            self._claims_in_flight.add(request.claim)
        try:
            answer = await self._store.exchange(transitions, request)
        except BaseException:
            # Unknown is not no: the claim may have landed, so what the store thinks we hold is looked up first.
            self._needs_audit = self._is_in_doubt = True
            if request is not None:
                self._claims_in_flight.discard(request.claim)
            raise
        self._is_in_doubt = False
        self._heart.store_answered()
        for (key, ended), settled in zip(batch, answer.answers, strict=True):
            self._settled(key, ended, settled)
        if request is not None:
            self._take(answer.claims, request.limit)
            self.has_claimed = True
            self._was_full = len(answer.claims) >= request.limit
            self._claims_in_flight.discard(request.claim)
        return len(answer.claims)

    async def audit(self) -> None:
        """Compare what the store thinks we hold with what we hold; unknown outcomes end here."""
        before = self._known()
        running_before = self._running()
        self._needs_audit = False
        try:
            held = await self._store.held(self._lease)
        except BaseException:
            self._needs_audit = True
            raise
        self._heart.store_answered()
        theirs = {(hold.job, hold.token) for hold in held}
        ours = before | self._known()
        for hold in held:
            if (hold.job, hold.token) in ours:
                if hold.cancel_requested:
                    self._executor.stop(hold.job, Stop.CANCELLED, token=hold.token)
            elif hold.token.claim not in self._claims_in_flight:
                code_ran = (hold.job, hold.token) in self._abandoned
                ended = Ended(Claim(hold=hold, payload=b"null"), lifecycle.release(hold, code_ran=code_ran))
                self._ended[hold.job, hold.token] = ended
        self._abandoned &= theirs
        for job, token in running_before & self._running():
            if (job, token) not in theirs:
                self._executor.stop(job, Stop.LOST, token=token)

    def request_audit(self) -> None:
        """Look again before the next exchange."""
        self._needs_audit = True

    def _request(self) -> ClaimRequest | None:
        self.is_idle, self.next_due = False, 0.0
        tasks, limit, self._is_narrow = self._wanted(self._was_full)
        if self.is_closed or not tasks or limit <= 0 or not self._heart.may_act():
            return None
        return ClaimRequest(
            lease=self._lease,
            claim=self._chance.uuid4(),
            tasks=tasks,
            limit=limit,
            queues=self._queues,
            last_tries=self._last_tries,
        )

    def _take(self, claims: Sequence[Claim], limit: int) -> None:
        for place, claim in enumerate(claims):
            code_of_it_runs = claim.hold.job in self._executor.running
            if place < limit and self._heart.may_act() and not self.is_closed and not code_of_it_runs:
                self._events.emit(EventName.JOB_CLAIMED, **self._fields(claim.hold))
                self._executor.start(claim)
            else:
                # More than asked, too late, or an attempt that was taken from us has not stopped yet.
                hold, back = claim.hold, lifecycle.release(claim.hold, code_ran=False)
                if code_of_it_runs:  # at once would be to us again, for as long as it runs
                    back = structs.replace(back, delay=self._poll_interval)
                self._ended[hold.job, hold.token] = Ended(claim, back)

    async def _pause(self, request: ClaimRequest | None, *, claimed: int) -> float:
        if self._ended or self._late:
            return 0.0
        if request is None:
            return self._poll_interval
        if claimed >= request.limit or self._is_narrow:  # who was left out may be due
            return 0.0
        due = self.next_due = await self._store.next_due(tuple(request.tasks), self._queues, self._last_tries)
        self.is_idle = due is None and not self._executor.running
        if due is None:
            return self._poll_interval
        # Due, and yet it was not given to us, because it came just now or because our lease has ended unheard: no spinning.
        return min(max(due, 0.001), self._poll_interval) if due > 0 else self._poll_interval * SOON

    def _settled(self, key: Key, ended: Ended, answer: Answer) -> None:
        del self._ended[key]
        match answer:
            case Answer.APPLIED:
                self._announce(ended.claim.hold, ended.transition)
            case Answer.LOST:
                self._lose(ended)
            case Answer.MISSING:
                self._events.emit(EventName.JOB_MISSING, **self._fields(ended.claim.hold))

    def _lose(self, ended: Ended) -> None:
        """The job is somebody else's: an outcome that came too late is kept on our own attempt's record."""
        hold, late = ended.claim.hold, ended.transition
        self._abandoned.add((hold.job, hold.token))
        if late is not None and (late.result is not None or late.error is not None):
            self._late.append(Note(job=hold.job, token=hold.token, late_result=late.result, error=late.error))
        self._events.emit(EventName.JOB_LOST, **self._fields(hold), reason="the store refused a write of a former owner")

    async def _annotate(self) -> None:
        if self._late:
            notes = tuple(self._late)
            await self._store.annotate(notes)
            del self._late[: len(notes)]

    def _known(self) -> set[Key]:
        return self._running() | set(self._ended)

    def _running(self) -> set[Key]:
        return {running.key for running in self._executor.running.values()}

    def _announce(self, hold: Hold, transition: Transition | None) -> None:
        if transition is None:
            return
        name = _EVENT_OF.get((transition.to, transition.record), EventName.JOB_RELEASED)
        error = transition.error.type if transition.error else None
        self._events.emit(name, **self._fields(hold), reason=transition.reason, error=error, delay=transition.delay or None)

    def _fields(self, hold: Hold) -> dict[str, object]:
        return {"job": hold.job, "task": hold.task, "attempt": hold.attempt, "worker": self._worker}


_EVENT_OF: dict[tuple[State, AttemptOutcome | None], EventName] = {
    (State.COMPLETED, None): EventName.JOB_COMPLETED,
    (State.COMPLETED, AttemptOutcome.COMPLETED): EventName.JOB_COMPLETED,
    (State.AVAILABLE, AttemptOutcome.FAILED): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.SNOOZED): EventName.JOB_SNOOZED,
    (State.AVAILABLE, AttemptOutcome.STALLED): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.TIMED_OUT): EventName.JOB_RETRIED,
    (State.AVAILABLE, AttemptOutcome.CRASHED): EventName.JOB_RETRIED,
    (State.FAILED, AttemptOutcome.FAILED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.STALLED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.TIMED_OUT): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.CRASHED): EventName.JOB_FAILED,
    (State.FAILED, AttemptOutcome.RELEASED): EventName.JOB_FAILED,
    (State.CANCELLED, AttemptOutcome.CANCELLED): EventName.JOB_CANCELLED,
}
