"""Settle finished runs and claim for free slots, in one write; audit the jobs that the store records for this worker."""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from holdfast._core import lifecycle
from holdfast._core.answers import Answer
from holdfast._core.job import ActiveJob, Claim, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import ClaimRequest
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.flow_events import report_flows
from holdfast._engine.runners.running import Stop
from holdfast._engine.service import is_refusal, yield_to_loop
from holdfast._engine.worker.attempt_log import AttemptLog
from holdfast._engine.worker.attempt_tallies import count_exchange
from holdfast._engine.worker.claim_turns import ClaimTurns
from holdfast._engine.worker.executor import Executor
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.inbox import Inbox
from holdfast._engine.worker.job_events import OutcomeEvents, origin_of
from holdfast._engine.worker.late_results import LateResults
from holdfast._engine.worker.lease import WorkerLease
from holdfast._engine.worker.locked_outcomes import LockedOutcomes
from holdfast._engine.worker.options import WorkerOptions
from holdfast._engine.worker.own_looks import OwnLooks
from holdfast._engine.worker.prefetch import AheadCalls, Key, Prefetch
from holdfast._engine.worker.progress_writer import ProgressWriter
from holdfast._engine.worker.refused_outcomes import RefusedOutcomes
from holdfast._engine.worker.resting_claims import RestingClaims
from holdfast._engine.worker.slots import Slots
from holdfast._ports.transport import ClaimSource, Hint

SETTLE_LIMIT = 1000
PIPELINE_FROM = 64
"""Number of slots from which on a claim asks a store on a server for at most half of them: one half runs while the server works
for the other. With fewer slots, two claims cost more than waiting for one."""


class Exchange:
    """The only part of the worker that claims and settles jobs."""

    def __init__(
        self,
        environment: Environment,
        executor: Executor,
        progress: ProgressWriter,
        lease: WorkerLease,
        slots: Slots,
        options: WorkerOptions,
        *,
        poll_interval: float,
        beat: float,
        ask_for_void: Callable[[], None],
        inbox: Inbox | None = None,
    ) -> None:
        self._store, self._events, self._chance = environment.store, environment.events, environment.chance
        self._wall = environment.clock.wall
        self._executor, self._progress, self._lease = executor, progress, lease
        self._slots, self._options, self._poll_interval, self._inbox = slots, options, poll_interval, inbox
        is_far = self._store.capabilities.lease_clock == "server"
        self._most = (slots.size + 1) // 2 if is_far and slots.size >= PIPELINE_FROM else slots.size
        self._delivered: Mapping[UUID, ClaimSource] = {}
        self._locked = LockedOutcomes(lease.now, min(poll_interval, beat), self._events)
        self._resting, self._turns = RestingClaims(slots.size, lease.now), ClaimTurns()
        self._refused = RefusedOutcomes(lease.now, self._chance, self._events)
        self.outcomes = OutcomeEvents(self._events, log := AttemptLog(options, environment.clock.monotonic))
        executor.begun = log.started if log.has_started else None
        self._ended, self._late = list[FinishedRun](), LateResults(self._store, lease.now, self._chance, self._events)
        self._abandoned, self._gone = set[Key](), list[UUID]()
        self._needs_audit = self._is_in_doubt = self.is_closed = self._announces_claims = self._announces_starts = False
        self.is_idle = self.has_claimed = self._was_full = self._is_narrow = self._was_ahead = self._rests = False
        self.looks = OwnLooks(environment, lease, options, poll_interval, inbox)
        calls = AheadCalls(self._begin, self.request_audit, lambda: not (self._needs_audit or self.is_closed), ask_for_void)
        self.ahead = Prefetch(environment, executor, lease, slots, options, calls)

    @property
    def undelivered(self) -> tuple[Transition, ...]:
        """The outcomes that the store has not answered yet."""
        return tuple(ended.transition for ended in self._unanswered() if ended.transition is not None)

    @property
    def is_delivered(self) -> bool:
        """Whether the store has answered everything, and all finished deliveries are acknowledged."""
        return not (len(self._late) or self._gone or self._unanswered())

    @property
    def held(self) -> int:
        """Number of claims whose code does not run: it has not begun, their outcomes are on the way, or their release rests."""
        return len(self._unanswered()) + len(self.ahead)

    @property
    def kept(self) -> int:
        """Number of slots kept by refused outcomes."""
        return self._refused.kept_of(self._slots.size)

    @property
    def has_refused_only(self) -> bool:
        """Whether no code runs, and the store has answered everything but what it refuses."""
        others = (self._gone, self._ended, self._resting, self._locked.outcomes, self._executor.running, self._executor.finished)
        return self._late.has_refused_only and len(self._refused) + len(self._late) > 0 and not any(others)

    def close(self) -> None:
        """Stop claiming, and return what was claimed ahead; outcomes are still settled."""
        self.is_closed = True
        self.ahead.close()

    def add(self, ended: FinishedRun) -> None:
        """Send the outcome of a run with the next write."""
        if ended.transition is None:
            self._keep_late_outcome(ended)
        elif ended.pause > 0:
            self._resting.add(ended)
        else:
            self._ended.append(ended)

    async def step(self) -> float:
        """Run one exchange, and further ones at once while one half of the slots works and the other half is being claimed.

        Return the seconds until the next step.
        """
        if self._needs_audit:
            await self.audit()
        if self._is_quiet() and (pause := await self.looks.again()) > 0:
            self.is_idle = self.looks.next_due is None
            return pause
        # Do not claim while answers are being lost: the worker would claim, release and claim the same jobs in a loop.
        was_in_doubt, goes_on = self._is_in_doubt, True
        await self.ahead.gather()
        self._ended += [*self._resting.rested(is_closed=self.is_closed), *self._locked.due()]
        while goes_on:
            self._collect()
            batch = self._ended[:SETTLE_LIMIT]
            request = None if was_in_doubt else self._request(batch)
            claimed = await self._exchange(batch, request) if batch or request is not None or was_in_doubt else 0
            if claimed is None:
                break
            goes_on = self._most < self._slots.size and request is not None and claimed >= self._most and self._is_half_free()
        await self._ask_refused()
        await self._late.deliver()
        await self._acknowledge_finished()
        pause = 0.0 if was_in_doubt or claimed is None else await self._pause(request, claimed=claimed)
        if pause > 0:
            self._turns.rest()
        return min(pause, self._resting.left(), self._locked.remaining(), self._refused.remaining(), self._late.remaining())

    def _is_quiet(self) -> bool:
        return self.is_idle and self.is_delivered and not (self._is_in_doubt or self.is_closed)

    def _collect(self) -> None:
        for run in self._executor.finished.take():
            self.add(run)

    def _is_half_free(self) -> bool:
        self._collect()
        return len(self._ended) >= self._most or self._slots.size - len(self._executor.running) >= self._most

    async def _exchange(self, batch: Sequence[FinishedRun], request: ClaimRequest | None) -> int | None:
        """Settle the batch and claim; return how many jobs were claimed; ``None``: the store has refused an outcome, or the claim."""
        await self._progress.write_final_updates()
        transitions = tuple(ended.transition for ended in batch if ended.transition is not None)
        sent = self._lease.now()
        listeners = map(self._events.has_listener, (EventName.JOB_CLAIMED, EventName.JOB_STARTED))
        self._announces_claims, self._announces_starts = listeners  # the same for all jobs that it brings
        try:
            answer = await self._store.exchange(transitions, request)
        except BaseException as error:
            # After an error the claim may still have landed, so look up which jobs the store records for this worker.
            self._needs_audit = True
            if request is not None and request.prefetch:
                self.ahead.doubt()
            if not batch or not is_refusal(error):
                self._is_in_doubt = True
                raise
            await self._divide(batch, request, error)
            return None
        self._is_in_doubt = False
        self._lease.store_answered()
        count_exchange(self._events.tallies, batch, answer.answers, self._lease.now() - sent, self._wall)
        self._settle(batch, answer.answers)
        if any(transition.has_flow for transition in transitions):
            report_flows(self._store, self._events)
        is_full = self.ahead.measure(len(batch), sent, request, answer, is_narrow=self._is_narrow)
        if request is not None:
            self._take(answer.claims, request)
            self._was_full, self._was_ahead = is_full, request.prefetch > 0
            if request.ids is None:
                self._turns.answered(request, answer, frees=bool(batch))
            self.has_claimed |= bool(answer.claims) or not self._turns.asks_again
        if self._inbox is not None:
            left = {ended.claim.job.id for ended in self._locked.outcomes}
            self._gone += [job for ended in batch if (job := ended.claim.job.id) not in left]
            await self._acknowledge(self._inbox, request, answer.claims)
        return len(answer.claims)

    async def _divide(self, batch: Sequence[FinishedRun], request: ClaimRequest | None, error: BaseException) -> None:
        """Send the outcomes of a refused write again, without its claim, then in halves, until each refused one is found.

        If the store refuses the claim itself, the next step raises its error, because it then sends nothing else.
        """
        if request is not None:
            await self._exchange(batch, None)
        elif (half := len(batch) // 2) > 0:
            await self._exchange(batch[:half], None)
            await self._exchange(batch[half:], None)
        else:
            self._lease.store_answered()
            self._refused.put_off(batch[0], error)
            del self._ended[:1]

    async def _ask_refused(self) -> None:
        """Send one refused outcome again in each step, in a write without others: the store would refuse those with it."""
        if (ended := self._refused.next_due()) is not None:
            self._ended.insert(0, ended)
            self.looks.look()
            await self._exchange([ended], None)

    async def _acknowledge(self, inbox: Inbox, request: ClaimRequest | None, claims: Sequence[Claim]) -> None:
        if request is not None and request.ids is not None:
            await inbox.claimed(request.ids, {claim.job.id for claim in claims})
        elif request is not None:
            self.looks.claimed(is_full=self._was_full)

    async def _acknowledge_finished(self) -> None:
        if self._inbox is not None and self._gone:
            gone, self._gone = self._gone, []
            await self._inbox.finished(gone)

    async def audit(self) -> None:
        """Compare the jobs that the store records for this worker with those it has; this resolves calls whose answer was lost.

        Only ``step`` calls it, between two exchanges. No claim is in flight then, so an unknown job comes from a claim whose
        answer was lost, and is released.
        """
        self._collect()
        before, ahead_before = self._known(), self.ahead.keys()
        running_before = self._running()
        self._needs_audit = False
        try:
            held = await self._store.held(self._lease.id)
        except BaseException:
            self._needs_audit = True
            raise
        self._lease.store_answered()
        self._collect()
        theirs = {(active.id, active.token) for active in held}
        ours = before | self._known()
        for active in held:
            if (active.id, active.token) in ours:
                if active.cancel_requested:
                    self.cancel(active.id, active.token)
            else:
                self.ahead.are_returning([(active.id, active.token)])
                code_ran = (active.id, active.token) in self._abandoned
                self._ended.append(FinishedRun(Claim(job=active, payload=b"null"), lifecycle.release(active, code_ran=code_ran)))
        self._abandoned &= theirs
        self.ahead.drop(ahead_before - theirs)
        self.ahead.wake.set()  # it starts nothing while an audit is due
        for running in list(self._executor.running.values()):
            if running.key in running_before and running.key not in theirs:
                self._executor.stop(running.claim.job.id, Stop.LOST, token=running.claim.job.token)

    def request_audit(self) -> None:
        """Make the next step begin with an audit, and take it soon; an idle worker takes it with its next look."""
        self._needs_audit = True
        if not self.is_idle:
            self._executor.finished.wake.set()

    def hinted(self, hint: Hint) -> None:
        """Take a hint: a job that runs here may have changed, or jobs may be due."""
        if any(job in self._executor.running for job in hint.ids):
            self.request_audit()
        self.looks.hinted(hint)

    def cancel(self, job: UUID, token: Token | None = None) -> None:
        """Stop a job for which cancellation was requested, or settle it if it has not begun."""
        self._executor.stop(job, Stop.CANCELLED, token=token)
        self.ahead.return_job(job)

    def _request(self, batch: Sequence[FinishedRun]) -> ClaimRequest | None:
        self.is_idle, self.looks.next_due, self._rests = False, 0.0, False
        if self._turns.has_limited or not all(ended.is_plain for ended in batch):
            self.looks.look()
        has_others = self._slots.are_mixed(self._lease.now()) or self._turns.has_limited
        if len(self.ahead) or (self.ahead.wanted() and not (has_others and self._was_ahead)):
            return self._request_ahead(has_others=has_others)
        plan = self._slots.plan(was_full=self._was_full)
        self._is_narrow = plan.leaves_out
        limit = min(plan.limit, self._slots.size - len(self._executor.running) - self.kept)
        if self.is_closed or not plan.tasks or limit <= 0 or not self._lease.may_act():
            return None
        self._delivered = self.looks.deliveries(min(limit, self._most))
        named = None if plan.leaves_out else self.looks.named(plan.tasks, min(limit, self._most))
        self._rests = named == ()
        if self._rests:
            return None
        return ClaimRequest(
            lease=self._lease.id,
            claim=self._chance.uuid4(),
            tasks=plan.tasks,
            limit=min(limit, self._most),
            queues=self._options.queues,
            isolated=self._options.isolated,
            ids=tuple(self._delivered) or named,
            cursor=self._turns.cursor,
            kind=self._turns.kind,
        )

    def _request_ahead(self, *, has_others: bool) -> ClaimRequest | None:
        """Return a claim of jobs that start later. If it cannot take all kinds of jobs, other claims come between such claims."""
        self.looks.look()
        self._is_narrow, self._delivered = has_others, {}
        if self.is_closed or (has_others and len(self.ahead)):
            return None
        return self.ahead.request(self._slots.tasks_ahead(self._lease.now()), self._turns.cursor_ahead)

    def _take(self, claims: Sequence[Claim], request: ClaimRequest) -> None:
        may_start = self._lease.may_act() and not self.is_closed  # each run checks again before its first line
        now, later = claims[: request.limit], claims[request.limit : request.limit + request.prefetch]
        for claim in now:
            self._begin(claim, self._lease.answered)
        if may_start and later:
            self.ahead.add(later, request.voids)
        for claim in claims[len(now) + (len(later) if may_start else 0) :]:  # too late, or more jobs than asked for
            self.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False)))

    def _begin(self, claim: Claim, claimed_at: float) -> None:
        """Run a job in a free slot, or return it if it is too late, or an attempt that this worker lost has not stopped yet."""
        code_of_it_runs = claim.job.id in self._executor.running
        if self._lease.may_act() and not self.is_closed and not code_of_it_runs:
            if self._announces_claims:
                via = self._delivered.get(claim.job.id, ClaimSource.POLL)
                self._events.emit(EventName.JOB_CLAIMED, **self._fields(claim.job), **origin_of(claim, via))
            self._executor.start(claim, claimed_at=claimed_at, is_announced=self._announces_starts)
        else:
            pause = self._poll_interval if code_of_it_runs else 0.0  # released at once it would come back at once
            self.add(FinishedRun(claim, lifecycle.release(claim.job, code_ran=False), pause))

    async def _pause(self, request: ClaimRequest | None, *, claimed: int) -> float:
        if self._ended or self._executor.finished:
            return 0.0
        if request is None and not self._rests:
            return self._poll_interval
        if request is not None:
            is_cut = claimed >= request.room or self._is_narrow  # jobs of kinds that were left out may be due
            if is_cut or (request.ids is None and self._turns.asks_again):
                return 0.0
        if self.looks.has_deliveries:
            return 0.0
        if claimed:
            await yield_to_loop()  # the claimed jobs start before the next call, and may end at once
            if self._ended or self._executor.finished:
                return 0.0
        pause = await self.looks.until_due(request)
        self.is_idle = self.looks.next_due is None and not self._executor.running and not len(self.ahead)
        return pause

    def _settle(self, batch: Sequence[FinishedRun], answers: Sequence[Answer]) -> None:
        has_listener = self.outcomes.has_listener
        self._locked.put_off(batch, answers)
        self.ahead.has_returned(ended.key for ended, answer in zip(batch, answers, strict=True) if answer is not Answer.BUSY)
        for ended, answer in zip(batch, answers, strict=True):
            is_plain = answer is Answer.APPLIED and ended.transition is not None and ended.transition.to is State.COMPLETED
            if has_listener or not is_plain:
                self._settled(ended, answer)
        del self._ended[: len(batch)]  # runs that were added since are behind these

    def _settled(self, ended: FinishedRun, answer: Answer) -> None:
        match answer:
            case Answer.APPLIED:
                self.outcomes.announce(ended, **self._fields(ended.claim.job))
            case Answer.LOST:
                self._keep_late_outcome(ended)
            case Answer.MISSING:
                self._events.emit(EventName.JOB_MISSING, **self._fields(ended.claim.job))
            case Answer.BUSY:
                pass

    def _keep_late_outcome(self, ended: FinishedRun) -> None:
        """Keep the outcome of a job that has another owner now, for the record of the attempt that produced it."""
        job = ended.claim.job
        self._abandoned.add((job.id, job.token))
        if self._inbox is not None:
            self._gone.append(job.id)
        self._late.add(job, ended.transition)
        self._events.emit(EventName.JOB_LOST, **self._fields(job), reason="the store refused a write of a former owner")

    def _known(self) -> set[Key]:
        return self._running() | self.ahead.keys() | {ended.key for ended in self._unanswered()}

    def _unanswered(self) -> list[FinishedRun]:
        return [*self._ended, *self._resting, *self._locked.outcomes, *self._refused.outcomes, *self._executor.finished]

    def _running(self) -> set[Key]:
        return {running.key for running in self._executor.running.values()}

    def _fields(self, job: ActiveJob) -> dict[str, object]:
        return {"job": job.id, "task": job.task, "attempt": job.attempt, "worker": self._lease.worker}
