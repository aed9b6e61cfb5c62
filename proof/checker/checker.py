"""Fold a history in one pass into a verdict for each property of ownership (semantics §10).

The checker judges only what a history records. It reads simulated runs, in which every write carries its token, and the logs of
real processes, in which only rows and handlers are known.
"""

from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

from msgspec import structs

from holdfast._core.job import PLACE_OF, Place, RescueReason, State, Token
from holdfast._core.lifecycle import Precondition
from proof.checker.claims import Claims
from proof.checker.history import FAIL_OVER, IN_CARE, ROWS, Event, History, JobRow, LeaseRow, Phase
from proof.checker.judges import JUDGES
from proof.checker.tracks import JobTrack, LeaseTrack, ProcessTrack
from proof.checker.verdicts import RATE, CheckContext, Report, Rules, Seers

_TOO_LATE = "it was back in its queue only {:.1f} s after its owner's death"


def check(history: History, rules: Rules | None = None) -> Report:
    """Return the report on a whole history; by default, of the promises of ``Rules()``."""
    checker = Checker(Rules() if rules is None else rules)
    for event in history:
        checker.see(event)
    return checker.finish()


def _is_steered(event: Event, before: JobRow) -> bool:
    """Return whether an operator's verb for a workflow, or for another member of it, moved a member, or completed its record."""
    is_operator = event.by is not None and event.by.verb in ("steer_flow", "reopen")
    after = event.after
    is_same = isinstance(after, JobRow) and after.state is before.state and after.member is not None
    return is_same or (before.member is not None and is_operator)


class Checker:
    """One pass; ``see`` each event, then ``finish``."""

    def __init__(self, rules: Rules) -> None:
        self._context = CheckContext(rules)
        self.report, self._rules, self._expect = self._context.report, rules, self._context.expect
        self._claims, self._others = Claims(self._context), tuple(kind(self._context) for kind in JUDGES)
        self._jobs: defaultdict[UUID, JobTrack] = defaultdict(JobTrack)
        self._leases: dict[UUID, LeaseTrack] = {}
        self._processes: defaultdict[str, ProcessTrack] = defaultdict(ProcessTrack)
        self._owned: defaultdict[str, set[UUID]] = defaultdict(set)
        self._runs: defaultdict[str, set[tuple[UUID, Token]]] = defaultdict(set)
        self._calm_since, self._now, self._is_done = 0.0 if rules.is_always_calm else float("inf"), 0.0, False
        own: Seers = {
            "job": self._see_row,
            "claim": self._see_claim_answer,
            "settle": self._see_answer,
            "reopen": self._see_reopening,
            "lease": self._see_lease,
            "handler.start": self._see_start,
            "handler.effect": self._see_effect,
            "handler.end": self._see_end,
            "process.end": self._see_death,
            "process.freeze": self._see_freeze,
            "process.thaw": self._see_thaw,
            "calm": self._see_calm,
            "done": self._see_done,
        }
        self._seers: defaultdict[str, list[Callable[[Event], None]]] = defaultdict(list)
        # The other rules read rows as they were before the event, so they run last.
        for seers in (own, self._claims.seers(), *(each.seers() for each in self._others)):
            for what, seer in seers.items():
                self._seers[what].append(seer)

    def see(self, event: Event) -> None:
        """Pass the next event to all rules that read events of its kind."""
        self._context.index += 1
        self._now = self._context.now = event.time
        if event.phase is Phase.UNKNOWN:
            self._context.doubt(event.what, event.job)
            return
        for seer in self._seers.get(event.what, ()):
            seer(event)

    def finish(self) -> Report:
        """Make the checks that need the whole history, and return the report."""
        for each in (self._claims, *self._others):
            each.finish()
        if self._rules.is_complete and not self._is_done:
            self._expect_nothing_stuck()
        return self.report

    def _expect_nothing_stuck(self) -> None:
        for job, track in self._jobs.items():
            if track.row is not None:
                is_settled = track.row.is_finished or track.row.state in (State.HELD, State.BLOCKED)  # L12 is about the blocked
                is_paused = track.row.state is State.AVAILABLE and track.row.queue in self._claims.paused
                is_settled = is_settled or not track.row.is_known or is_paused
                self._expect("L2", is_settled, job, "at the end the job is still {}", track.row.state)

    def _see_row(self, event: Event) -> None:
        assert event.job is not None
        before, after, job, track = event.before, event.after, event.job, self._jobs[event.job]
        self._context.learn(job)
        if event.by is not None and event.by.verb == FAIL_OVER:
            track.row = after if isinstance(after, JobRow) else None
            track.is_forgotten, track.orphaned_at, self._context.has_forgotten = True, None, True
            return
        if not isinstance(after, JobRow) or not isinstance(before, JobRow):
            track.row, track.born_at = after if isinstance(after, JobRow) else None, event.time
            return
        match PLACE_OF[before.state], PLACE_OF[after.state]:
            case Place.PENDING, Place.ACTIVE:
                self._see_claim(event, job, before, after)
            case Place.ACTIVE, Place.ACTIVE:
                self._see_write(event, job, before, after)
            case Place.ACTIVE, _:
                self._see_move(event, job, before, after)
            case Place.FINISHED, _:
                is_beside = (
                    event.by is not None and event.by.verb in ("prune", "owed_hooks", "hook") and after.state is before.state
                )
                is_beside = is_beside or _has_lost_key(before, after)
                is_allowed = is_beside or (track.is_reopening and after.state is State.AVAILABLE) or _is_steered(event, before)
                self._expect("S4", is_allowed, job, "it was {} and became {} without an operator", before.state, after.state)
            case _:  # the job has no owner
                self._expect_right(event, job, before)
        self._expect("S2", after.token.number >= before.token.number, job, "the claim number of the job went down")
        track.row = after

    def _see_claim(self, event: Event, job: UUID, before: JobRow, after: JobRow) -> None:
        track = self._jobs[job]
        # A store that lost a claim in a fail-over may make it again, for the same call and lease: no other owner got that token.
        is_unmade = after.token not in track.tokens or (track.is_forgotten and track.tokens[after.token] == after.lease)
        is_new = is_unmade and after.token.number > before.token.number
        self._expect("S2", is_new, job, "{} was made a second time", after.token)
        self._expect(
            "S1", before.state in (State.AVAILABLE, State.SCHEDULED), job, "it was claimed while it was {}", before.state
        )
        self._expect("S1", after.lease is not None, job, "the job was claimed for no lease")
        lease = None if after.lease is None else self._leases.get(after.lease)
        if lease is not None:
            is_known = not after.task or not lease.row.tasks or after.task in lease.row.tasks
            self._expect("S16", is_known, job, "{} took the job and has no code for its task {}", lease.row.process, after.task)
            self._see_lease_of_claim(job, lease, after.token)
        is_counted = after.attempt == before.attempt + (after.state is State.RUNNING)
        is_kept = (after.failures, after.crashes) == (before.failures, before.crashes)
        self._expect("S9", is_counted and is_kept, job, "the claim changed the budgets of the job")
        track.tokens[after.token] = after.lease
        track.orphaned_at = None
        if lease is not None:
            self._owned[lease.row.process].add(job)
            died_at = self._processes[lease.row.process].died_at
            track.orphaned_at, track.was_in_care = None if died_at is None else self._now, False

    def _see_lease_of_claim(self, job: UUID, lease: LeaseTrack, token: Token) -> None:
        late = lease.row.overdue + (self._now - lease.at) / RATE
        is_late = self._rules.is_timed and self._rules.has_lease_clock and late > self._rules.step + 0.01
        if self._rules.confirms_claims and (lease.is_ended or is_late):
            self._jobs[job].unconfirmed.add(token)
            return
        self._expect("S8", not lease.is_ended, job, "the job was claimed for a lease that had ended")
        self._expect("S8", not is_late, job, "its lease had run out {:.3f} s before it was claimed", late)

    def _see_write(self, event: Event, job: UUID, before: JobRow, after: JobRow) -> None:
        self._expect("S1", after.token == before.token, job, "{} took it from {} without the right to", after.token, before.token)
        self._expect_right(event, job, before)
        is_witnessed = after.witness in (before.witness, "", str(before.token)) or after.task.startswith(ROWS)
        self._expect("S3", is_witnessed, job, "progress of {} was written, and {} owns it", after.witness, before.token)
        if before.state is State.CLAIMED and after.state is State.RUNNING:
            lease = None if before.lease is None else self._leases.get(before.lease)
            if after.token in self._jobs[job].started:
                lease = None  # its lease has the start, which a later write of the row only repeats
            self._expect("S8", lease is None or not lease.is_ended, job, "the job was started under a lease that had ended")
            self._expect("S9", after.attempt == before.attempt + 1, job, "the start was not counted as an attempt")

    def _see_move(self, event: Event, job: UUID, before: JobRow, after: JobRow) -> None:
        track = self._jobs[job]
        lease = None if before.lease is None else self._leases.get(before.lease)
        self._expect_right(event, job, before)
        is_foreign = after.result not in ("", before.result, str(before.token))
        is_foreign = is_foreign and any(after.result == str(token) for token in track.tokens)
        self._expect("S3", not is_foreign, job, "the result of {} was written, and {} owned the job", after.result, before.token)
        is_rescue = event.by is not None and event.by.precondition is Precondition.LEASE_ENDED
        if is_rescue:
            self.report.rescues += 1
            self._expect("S5", lease is None or lease.is_ended, job, "the job was taken from an owner whose lease had not ended")
        owner = track.running.get(before.token)
        is_stopped = owner is None or self._is_excused(owner, job)
        self._expect("S8", is_stopped, job, "the job moved on from {} while code of that claim was still running", before.token)
        self._expect_budget(job, before, after)
        if not self._rules.has_crashes:
            self._expect("L8", after.crashes == 0, job, "the job was charged for a crash, and no process has crashed")
        if event.by is not None:
            is_charged = self._is_charged(job, before, lease) if is_rescue else self._context.is_crash_of_runner(event)
            self._expect_charge(job, before, after, is_charged=is_charged)
            track.moved[before.token] = event
        self._expect_bound(job, track, lease)
        if lease is not None:
            self._owned[lease.row.process].discard(job)

    def _expect_right(self, event: Event, job: UUID, before: JobRow) -> None:
        if event.by is not None and event.by.token is not None:
            is_owner = event.by.token == before.token
            self._expect("S3", is_owner, job, "a write of {} changed the job, which {} owned", event.by.token, before.token)

    def _expect_charge(self, job: UUID, before: JobRow, after: JobRow, *, is_charged: bool) -> None:
        crashes = before.crashes + 1 if is_charged else before.crashes
        problem = "a crash was not counted" if is_charged else "a crash was charged, and there was none"
        self._expect("S9", after.crashes == crashes, job, "{}: {} crashes became {}", problem, before.crashes, after.crashes)

    def _expect_budget(self, job: UUID, before: JobRow, after: JobRow) -> None:
        is_waiting = PLACE_OF[after.state] is Place.PENDING and after.state is not State.HELD
        # Under the policy of another release the job may have spent more: its crashes before count as within its budget.
        for was, is_now, most in (
            (before.failures, after.failures, after.policy.max_attempts),
            (before.crashes, after.crashes, after.policy.max_crashes),
        ):
            is_right = is_now == was or (is_now <= max(most, was + 1) and not (is_waiting and is_now >= most))
            self._expect("S9", is_right, job, "it goes on, and its budget is spent")

    def _expect_bound(self, job: UUID, track: JobTrack, lease: LeaseTrack | None) -> None:
        if track.orphaned_at is not None and self._rules.bound is not None and self._now >= self._calm_since:
            renewed_at = 0.0 if lease is None else lease.renewed_at  # also by a beat that was on its way when its sender died
            took = self._now - max(track.orphaned_at, self._calm_since, renewed_at, self._context.unlocked_at[job])
            self.report.recoveries.append(took)
            # A row that was locked is asked for again in the next round of recovery.
            is_local = track.was_in_care and self._context.unlocked_at[job] <= track.orphaned_at
            bound = self._rules.local_bound if is_local else self._rules.bound_of(None if lease is None else lease.row)
            self._expect("L1", bound is None or took <= bound, job, _TOO_LATE, took)
        track.orphaned_at = None

    # truth: leases

    def _see_lease(self, event: Event) -> None:
        assert event.lease is not None
        after, known = event.after, self._leases.get(event.lease)
        if event.by is not None and event.by.verb == FAIL_OVER:
            self._leases.pop(event.lease, None)
            known, self._context.has_forgotten = None, True
        if not isinstance(after, LeaseRow):
            return
        if known is not None and known.is_ended:
            self._expect("S3", after.is_ended, None, "{} had ended and is active again", event.lease)
            is_older = after.overdue >= 0 or after.overdue >= known.row.overdue
            self._expect("S3", is_older, None, "{} was renewed after its end", event.lease)
        elif known is not None and after.is_ended:
            self._see_lease_end(event, known, after)
        renewed_at = event.time if known is None or not after.is_ended else known.renewed_at
        self._leases[event.lease] = LeaseTrack(after, event.time, renewed_at, after.is_ended)

    def _see_lease_end(self, event: Event, known: LeaseTrack, after: LeaseRow) -> None:
        holder = self._processes[after.process]
        if event.by is not None and event.by.is_judged:
            early = self._rules.early if self._rules.has_lease_clock else after.ttl * self._rules.rate_error
            problem = "{} was ended {:.3f} s before it ran out"
            self._expect("S5", after.overdue >= -early, None, problem, event.lease, -after.overdue)
        elif event.by is not None:
            is_own = event.process == after.process
            self._expect("S5", is_own or holder.died_at is not None, None, "{} was ended, and its worker was alive", event.lease)

    # what callers saw

    def _see_claim_answer(self, event: Event) -> None:
        if event.job is None or event.token is None or event.phase is not Phase.OK:
            return
        track = self._jobs[event.job]
        owner = track.claimed_by.setdefault(event.token, event.process)
        self._expect("S1", owner == event.process, event.job, "{} went to {} as well", event.token, owner)
        self._expect("S1", event.token in track.tokens, event.job, "a worker received {}, which was never made", event.token)

    def _see_reopening(self, event: Event) -> None:
        if event.job is not None and event.phase is Phase.INVOKE:
            self._jobs[event.job].is_reopening = True

    def _see_answer(self, event: Event) -> None:
        job, token, by = event.job, event.token, event.by
        if job is None or token is None or by is None or self._context.has_forgotten:
            return
        track = self._jobs[job]
        if event.phase is Phase.INVOKE:
            track.asked_at[event.process, token] = event.time
            return
        move, asked_at = track.moved.get(token), track.asked_at.get((event.process, token), event.time)
        moved = None if move is None else move.by
        is_same = moved is not None and moved.outcome == by.outcome
        if event.phase is Phase.OK:
            # A job whose cancellation was requested ends cancelled, with any outcome that its owner settles.
            is_same = is_same or (moved is not None and track.row is not None and track.row.state is State.CANCELLED)
            done = moved and moved.outcome
            self._expect("S10", is_same, job, "'{}' was confirmed to {}, '{}' was done", by.outcome, token, done)
        elif event.note == "missing":
            was_missing = track.row is None or track.born_at >= asked_at
            self._expect("S10", was_missing, job, "the store reported that there is no such job")
        elif event.note != "busy":  # which denies nothing
            is_right = not is_same or moved is None or moved.precondition is not by.precondition
            # Another process may have done it while the answer was on its way, as two supervisors do that judge one lease.
            is_right = is_right or (move is not None and move.process != event.process and move.time >= asked_at)
            self._expect("S10", is_right, job, "'{}' of {} was done and denied", by.outcome.split()[0], token)

    def _see_start(self, event: Event) -> None:
        assert event.job is not None
        assert event.token is not None
        job, token, track = event.job, event.token, self._jobs[event.job]
        self.report.starts += 1
        self._expect("S1", token in track.tokens, job, "code started under {}, which was never made", token)
        self._expect("S10", token not in track.started, job, "code started twice under {}", token)
        self._expect("S8", token not in track.unconfirmed, job, "code started under {}, made after its lease had ended", token)
        track.started.add(token)
        self._see_overlap(event, job, token)
        track.running[token] = event.process
        self._runs[event.process].add((job, token))
        if track.row is not None and track.row.token == token and track.row.lease in self._leases:
            lease = self._leases[track.row.lease]
            late = self._now - lease.at - (lease.row.ttl - lease.row.margin) * RATE - 0.001
            if late > 0:
                self._expect(
                    "S8", self._is_excused(event.process), job, "code started {:.3f} s after its worker's deadline", late
                )

    def _see_effect(self, event: Event) -> None:
        assert event.job is not None
        assert event.token is not None
        track = self._jobs[event.job]
        if event.token in track.running and track.row is not None and track.row.token != event.token:
            self._see_overlap(event, event.job, event.token)

    def _see_overlap(self, event: Event, job: UUID, token: Token) -> None:
        if not (others := [process for each, process in self._jobs[job].running.items() if each != token]):
            return
        own = None if event.what == "handler.start" else job  # the code that starts is not the code that should have stopped
        is_excused = self._is_excused(event.process, own) or all(self._is_excused(other, job) for other in others)
        if (event.process not in others or self._context.runs_on(event.process, job)) and is_excused:
            self.report.overlaps_outside += 1
        else:
            self.report.overlaps_inside += 1
            self._expect("S8", False, job, "code of {} ran beside other code of the job", token)

    def _see_end(self, event: Event) -> None:
        if event.job is not None and event.token is not None:
            self._jobs[event.job].running.pop(event.token, None)
            self._runs[event.process].discard((event.job, event.token))

    def _see_death(self, event: Event) -> None:
        self._processes[event.process].died_at = event.time
        for job, token in self._runs.pop(event.process, ()):
            if self._jobs[job].running.get(token) == event.process:
                del self._jobs[job].running[token]
        is_in_care = event.note.endswith(IN_CARE)
        for job in self._owned.pop(event.process, ()):
            self._jobs[job].orphaned_at, self._jobs[job].was_in_care = event.time, is_in_care
        if is_in_care:
            was_killed = event.note.startswith("SIGKILL")
            self._expect("L3", self._rules.has_kills or not was_killed, None, "{} was killed without a reason", event.process)

    def _see_freeze(self, event: Event) -> None:
        self._processes[event.process].thawed_at = float("inf")

    def _see_thaw(self, event: Event) -> None:
        self._processes[event.process].thawed_at = event.time

    def _see_calm(self, event: Event) -> None:
        self._calm_since = min(self._calm_since, event.time)

    def _see_done(self, event: Event) -> None:
        """Check liveness now. Later events count for safety only: an operator's late retry may start a job again."""
        self._expect_nothing_stuck()
        self._is_done = True

    def _is_excused(self, process: str, job: UUID | None = None) -> bool:
        is_awake = self._now - self._processes[process].thawed_at > self._rules.waking
        return not (self._rules.is_timed and is_awake) or self._context.runs_on(process, job)

    def _is_charged(self, job: UUID, before: JobRow, lease: LeaseTrack | None) -> bool:
        """Return what ``LeaseEnd.charges_crash_of`` returns, from the rows; code past a limit pays an attempt, not a crash."""
        if before.state is not State.RUNNING or lease is None:  # a lease lost in a fail-over counts as expired
            return before.state is State.RUNNING and self._context.has_forgotten
        charge = lease.row.culprits.get(job)
        return charge is RescueReason.UNRESPONSIVE or (charge is None and not lease.row.is_free)


def _has_lost_key(before: JobRow, after: JobRow) -> bool:
    """Return whether all that has changed is that another job has taken its unique key."""
    as_before = structs.replace(
        after, key_terms=before.key_terms, key_kept=before.key_kept, due_in=before.due_in, expires_in=before.expires_in
    )
    return after.key_terms.is_freed and as_before == before
