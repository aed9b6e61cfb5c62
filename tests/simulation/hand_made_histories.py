"""Histories made by hand, in few words, for tests of the checker and of stories."""

from uuid import UUID

from msgspec import structs

from holdfast._core.job import AttemptOutcome, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.policy import Policy
from proof.checker.checker import check
from proof.checker.history import IN_CARE, By, Event, History, JobRow, LeaseRow, Phase, TableRow
from proof.checker.verdicts import Report, Rules

JOB, LEASE, OTHER_LEASE, CHILD, CALL = (UUID(int=number) for number in range(1, 6))
FIRST, SECOND = Token(UUID(int=11), 1), Token(UUID(int=12), 2)
WORKER, OTHER = "m-1-1", "m-2-2"
NO_CLAIM = Token(None, 0)


class Tale:
    """Events in order, in few words; each one moves the time on by 0.1 s."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.time = 0.0
        self.row: JobRow | None = None
        self.parcels: TableRow | None = None
        self.leases: dict[UUID, LeaseRow] = {}

    def later(self, seconds: float) -> "Tale":
        self.time += seconds
        return self

    def say(self, what: str, phase: Phase, process: str = WORKER, **more: object) -> "Tale":
        self.time += 0.1
        self.events.append(Event(time=self.time, process=process, what=what, phase=phase, **more))  # type: ignore[arg-type]
        return self

    def lease(self, lease: UUID = LEASE, process: str = WORKER, **more: object) -> "Tale":
        """Open or renew a lease."""
        row = LeaseRow(process, "w", 30.0, 5.0, -30.0, slots=10)
        return self._lease(lease, structs.replace(row, **more), By("beat"), process)

    def end_lease(
        self,
        lease: UUID = LEASE,
        *,
        by: str = WORKER,
        overdue: float = 1.0,
        is_judged: bool = False,
        is_free: bool = False,
        culprits: dict[UUID, RescueReason] | None = None,
    ) -> "Tale":
        ended = structs.replace(self.leases[lease], overdue=overdue, is_ended=True, is_free=is_free, culprits=culprits or {})
        return self._lease(lease, ended, By("end_lease", is_judged=is_judged), by)

    def _lease(self, lease: UUID, row: LeaseRow, by: By, process: str) -> "Tale":
        before, self.leases[lease] = self.leases.get(lease), row
        return self.say("lease", Phase.TRUTH, process, lease=lease, before=before, after=row, by=by)

    def job(self, by: By | None = None, process: str = WORKER, **changes: object) -> "Tale":
        before = self.row
        self.row = JobRow(State.AVAILABLE, NO_CLAIM) if before is None else structs.replace(before, **changes)
        return self.say("job", Phase.TRUTH, process, job=JOB, before=before, after=self.row, by=by)

    def claim(self, token: Token = FIRST, lease: UUID = LEASE, process: str = WORKER) -> "Tale":
        """Claim the job, answer the worker, and start the code."""
        assert self.row is not None
        self.job(By("claim"), process, state=State.RUNNING, token=token, lease=lease, attempt=self.row.attempt + 1)
        self.say("claim", Phase.OK, process, job=JOB, token=token)
        return self.life("handler.start", token, process)

    def life(self, what: str, token: Token, process: str = WORKER) -> "Tale":
        """Add an event of a handler."""
        return self.say(what, Phase.LIFE, process, job=JOB, token=token)

    def settle(
        self,
        under: Token = FIRST,
        judge: Precondition = Precondition.TOKEN,
        process: str = WORKER,
        record: AttemptOutcome | None = None,
        **changes: object,
    ) -> "Tale":
        new = {"state": State.COMPLETED, **changes}
        return self.job(By("exchange", under, judge, str(new["state"]), record=record), process, **new)

    def other(self, job: UUID, by: By, **row: object) -> "Tale":
        return self.say(
            "job", Phase.TRUTH, job=job, before=None, after=JobRow(**{"state": State.AVAILABLE, "token": NO_CLAIM, **row}), by=by
        )

    def gone(self, verb: str) -> "Tale":
        """Remove the row of the job."""
        before, self.row = self.row, None
        return self.say("job", Phase.TRUTH, job=JOB, before=before, after=None, by=By(verb))

    def beside(self, lease: UUID) -> "Tale":
        """Claim a second isolated attempt under that lease."""
        waiting = JobRow(State.AVAILABLE, NO_CLAIM, policy=Policy(max_crashes=2), crashes=1, attempt=1)
        taken = structs.replace(waiting, state=State.RUNNING, token=Token(UUID(int=13), 3), lease=lease, attempt=2)
        self.say("job", Phase.TRUTH, job=CHILD, before=None, after=waiting, by=By("enqueue"))
        return self.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))

    def parcel(
        self, verb: str, status: str, fence: str = "", *, under: str | None = None, held: float = 0.0, **more: int
    ) -> "Tale":
        """Change a row of a watched table by a verb, which carries the fence ``under``."""
        before = None if self.parcels is None else structs.replace(self.parcels, held=held)
        self.parcels = structs.replace(before or TableRow(1, status), status=status, fence=fence, held=0.0, **more)
        by = By(verb, outcome=fence if under is None else under)
        return self.say("row", Phase.TRUTH, before=before, after=self.parcels, by=by)

    def calm(self) -> "Tale":
        """Record that all faults have stopped."""
        return self.say("calm", Phase.LIFE)

    def queue(self, note: str) -> "Tale":
        """Pause or resume a queue."""
        return self.say("queue", Phase.TRUTH, by=By("pause"), note=note)

    def confirmed(self) -> "Tale":
        """Confirm the cancellation to the operator."""
        return self.say("request_cancel", Phase.OK, "operator", job=JOB)

    def answer(self, phase: Phase, outcome: str, token: Token = FIRST, note: str = "") -> "Tale":
        by = By("exchange", token, Precondition.TOKEN, outcome)
        return self.say("settle", phase, job=JOB, token=token, by=by, note=note)

    def rescue(self, under: Token = FIRST, process: str = OTHER, *, crashes: int = 1, **changes: object) -> "Tale":
        """Rescue the job from an ended lease, by another process."""
        given = {"state": State.AVAILABLE, "token": Token(None, under.number), "lease": None, "crashes": crashes, **changes}
        return self.settle(under, Precondition.LEASE_ENDED, process, AttemptOutcome.CRASHED, **given)

    def check(self, rules: Rules | None = None) -> Report:
        return check(History(self.events), rules)


def begun() -> Tale:
    """A job that is enqueued, acknowledged, claimed and running."""
    return Tale().job(By("enqueue")).say("enqueue", Phase.OK, job=JOB).lease().claim()


def stopped() -> Tale:
    return begun().life("handler.end", FIRST)


def asked(tale: Tale) -> Tale:
    """An operator asks to cancel the job."""
    return tale.say("request_cancel", Phase.INVOKE, "operator", job=JOB)


def marked(tale: Tale) -> Tale:
    """The row of the job shows the requested cancellation."""
    return tale.job(By("request_cancel"), is_cancel_requested=True)


def dead() -> Tale:
    """The worker has died, and a supervisor has ended its lease."""
    return begun().say("process.end", Phase.LIFE, WORKER).end_lease(by=OTHER)


def new(**row: object) -> Tale:
    """A job with these values is enqueued; a worker waits for it."""
    tale = Tale().lease()
    tale.row = JobRow(**{"state": State.AVAILABLE, "token": NO_CLAIM, **row})  # type: ignore[arg-type]
    return tale.say("job", Phase.TRUTH, job=JOB, before=None, after=tale.row, by=By("enqueue"))


def child(tale: Tale, token: Token = FIRST) -> Tale:
    """The job's code enqueues another one."""
    by = By("enqueue", token, call=CALL, parent=JOB)
    return tale.say("enqueue", Phase.INVOKE, job=CHILD, by=by).other(CHILD, by).say("enqueue", Phase.OK, job=CHILD, by=by)


def batch(*written: UUID) -> Tale:
    """Two jobs are sent in one call."""
    by, tale = By("enqueue", call=CALL), Tale()
    for job in (JOB, CHILD):
        tale.say("enqueue", Phase.INVOKE, job=job, by=by)
    for job in written:
        tale.other(job, by)
    return tale


def keyed(before: float = 0.0) -> Tale:
    """A second job with the key is refused because of the first one, which has finished before or has not."""
    tale = new(key="task/key").claim().life("handler.end", FIRST)
    tale = tale.settle().later(before) if before else tale
    by = By("enqueue", call=CALL)
    tale.say("enqueue", Phase.INVOKE, job=CHILD, by=structs.replace(by, outcome="keyed"))
    return tale.say("enqueue", Phase.FAIL, job=CHILD, by=structs.replace(by, holder=JOB))


RESTING = Policy(progress_within=10.0)
LIMITED = Policy(timeout=10.0)
FRAGILE = Policy(max_crashes=2)


def rested(seconds: float, *, moved: bool = True, **more: object) -> Tale:
    """The code has reported no progress for that many seconds."""
    tale = new(policy=RESTING, **more).claim()
    tale = tale.later(8).life("handler.move", FIRST) if moved else tale
    return tale.later(seconds)


def stalled(tale: Tale, judge: Precondition = Precondition.TOKEN) -> Tale:
    """The job is charged as stalled."""
    given = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None, "failures": 1}
    tale = tale.life("handler.end", FIRST) if judge is Precondition.TOKEN else tale
    return tale.settle(FIRST, judge, WORKER, AttemptOutcome.STALLED, **given)


def last_try(**lease: object) -> Tale:
    """The worker of the job died; another one claims it for an isolated attempt."""
    tale = new(policy=FRAGILE).claim().say("process.end", Phase.LIFE, WORKER).end_lease(by=OTHER).rescue()
    return tale.lease(OTHER_LEASE, OTHER, **lease).claim(SECOND, OTHER_LEASE, OTHER)


def overran(tale: Tale) -> Tale:
    """The job is charged as timed out."""
    given = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None, "failures": 1}
    return tale.life("handler.end", FIRST).settle(FIRST, Precondition.TOKEN, WORKER, AttemptOutcome.TIMED_OUT, **given)


def charged_to_death(tale: Tale) -> Tale:
    """The worker dies, and this crash ends the job."""
    assert tale.row is not None
    lease = tale.row.lease or LEASE
    process = tale.leases[lease].process
    tale.say("process.end", Phase.LIFE, process).end_lease(lease, by="m-3-3")
    return tale.rescue(tale.row.token, state=State.FAILED, reason=Reason.WORKER_CRASHED, crashes=2)


def ready(slots: int = 1) -> Tale:
    return Tale().lease(slots=slots).say("worker.ready", Phase.LIFE)


def frozen() -> Tale:
    """The worker is frozen while its lease ends, and thaws long afterwards."""
    tale = begun().calm().say("process.freeze", Phase.LIFE).later(40).end_lease(by=OTHER)
    return tale.later(40).say("process.thaw", Phase.LIFE)


def released(tale: Tale, **changes: object) -> Tale:
    given = {"state": State.AVAILABLE, "token": Token(None, 1), "lease": None, **changes}
    return tale.settle(FIRST, Precondition.TOKEN, WORKER, AttemptOutcome.RELEASED, **given)


def core(slots: int = 1) -> Tale:
    """A worker of the healthy core runs the job to its end."""
    tale = ready(slots)
    tale.events[-1] = structs.replace(tale.events[-1], note=IN_CARE)
    return tale.job().claim().life("handler.end", FIRST)


def full(tale: Tale) -> Tale:
    """Code of another job takes the worker's only slot."""
    return tale.say("handler.start", Phase.LIFE, job=CHILD, token=SECOND)


def claimed_beside(tale: Tale, *, is_owed: bool) -> Tale:
    """Another job takes the worker's only slot, with its rescue hook to run first or not, and its code does not start."""
    waiting = JobRow(State.AVAILABLE, NO_CLAIM, attempt=1, is_owed=is_owed)
    taken = structs.replace(waiting, state=State.RUNNING, token=SECOND, lease=LEASE, attempt=2)
    return tale.say("job", Phase.TRUTH, job=CHILD, before=waiting, after=taken, by=By("claim"))


def taken_late(tale: Tale, seconds: float) -> Tale:
    """The job is claimed at once, and its code starts only after a while."""
    assert tale.row is not None
    tale.job(By("claim"), state=State.RUNNING, token=SECOND, lease=LEASE, attempt=tale.row.attempt + 1)
    return tale.later(seconds).life("handler.start", SECOND)
