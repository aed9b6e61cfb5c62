"""Every verdict of the checker, on histories made by hand: one that is good, and one for each way of being bad."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State, Token
from holdfast._core.lifecycle import Judge
from holdfast.testing.checker import check
from holdfast.testing.history import FAIL_OVER, IN_CARE, By, Event, History, JobRow, LeaseRow, Phase
from holdfast.testing.verdicts import PROPERTIES, Report, Rules

JOB, LEASE, OTHER_LEASE = UUID(int=1), UUID(int=2), UUID(int=3)
FIRST, SECOND = Token(UUID(int=11), 1), Token(UUID(int=12), 2)
WORKER, OTHER = "m-1-1", "m-2-2"
NOBODY = Token(None, 0)


class Tale:
    """Events in order, with few words; each line moves the time on by 0.1 s unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.time = 0.0
        self.row: JobRow | None = None
        self.leases: dict[UUID, LeaseRow] = {}

    def later(self, seconds: float) -> "Tale":
        """Time passes."""
        self.time += seconds
        return self

    def say(self, what: str, phase: Phase, process: str = WORKER, **more: object) -> "Tale":
        """One event."""
        self.time += 0.1
        self.events.append(Event(time=self.time, process=process, what=what, phase=phase, **more))  # type: ignore[arg-type]
        return self

    def lease(self, lease: UUID = LEASE, process: str = WORKER, *, overdue: float = -30.0) -> "Tale":
        """It is opened or beaten."""
        return self._lease(lease, LeaseRow(process, "w", 30.0, 5.0, overdue), By("beat"), process)

    def end_lease(
        self, lease: UUID = LEASE, *, by: str = WORKER, overdue: float = 1.0, is_judged: bool = False, is_free: bool = False
    ) -> "Tale":
        """It ends."""
        ended = structs.replace(self.leases[lease], overdue=overdue, is_ended=True, is_free=is_free)
        return self._lease(lease, ended, By("end_lease", is_judged=is_judged), by)

    def _lease(self, lease: UUID, row: LeaseRow, by: By, process: str) -> "Tale":
        before, self.leases[lease] = self.leases.get(lease), row
        return self.say("lease", Phase.TRUTH, process, lease=lease, before=before, after=row, by=by)

    def job(self, by: By | None = None, process: str = WORKER, **changes: object) -> "Tale":
        """Its row changes."""
        before = self.row
        self.row = JobRow(State.AVAILABLE, NOBODY) if before is None else structs.replace(before, **changes)
        return self.say("job", Phase.TRUTH, process, job=JOB, before=before, after=self.row, by=by)

    def claim(self, token: Token = FIRST, lease: UUID = LEASE, process: str = WORKER) -> "Tale":
        """It is taken, the worker is told, and its code starts."""
        assert self.row is not None
        self.job(By("claim"), process, state=State.RUNNING, token=token, lease=lease, attempt=self.row.attempt + 1)
        self.say("claim", Phase.OK, process, job=JOB, token=token)
        return self.life("handler.start", token, process)

    def life(self, what: str, token: Token, process: str = WORKER) -> "Tale":
        """What a handler does."""
        return self.say(what, Phase.LIFE, process, job=JOB, token=token)

    def settle(self, under: Token = FIRST, judge: Judge = Judge.OWNER, process: str = WORKER, **changes: object) -> "Tale":
        """It moves."""
        new = {"state": State.COMPLETED, **changes}
        return self.job(By("exchange", under, judge, str(new["state"])), process, **new)

    def answer(self, phase: Phase, outcome: str, token: Token = FIRST, note: str = "") -> "Tale":
        """What the one who settled was told."""
        by = By("exchange", token, Judge.OWNER, outcome)
        return self.say("settle", phase, job=JOB, token=token, by=by, note=note)

    def rescue(self, under: Token = FIRST, process: str = OTHER, *, crashes: int = 1, **changes: object) -> "Tale":
        """Somebody else takes it from an ended lease."""
        given = {"state": State.AVAILABLE, "token": Token(None, under.number), "lease": None, "crashes": crashes, **changes}
        return self.settle(under, Judge.LEASE_ENDED, process, **given)

    def check(self, rules: Rules | None = None) -> Report:
        """The verdict."""
        return check(History(self.events), rules)


def _begun() -> Tale:
    """Enqueued, acknowledged, claimed, running."""
    return Tale().job(By("enqueue")).say("enqueue", Phase.OK, job=JOB).lease().claim()


def _stopped() -> Tale:
    return _begun().life("handler.end", FIRST)


def _dead() -> Tale:
    """Its worker has died and its lease was ended by the supervisor."""
    return _begun().say("process.end", Phase.LIFE, WORKER).end_lease(by=OTHER)


GOOD = {
    "it completes": _stopped().settle().answer(Phase.OK, "completed"),
    "it completes, and the same settle sent again is confirmed": _stopped()
    .settle()
    .answer(Phase.OK, "completed")
    .answer(Phase.OK, "completed"),
    "it is rescued from the dead, charged, and completed by another": _dead()
    .rescue()
    .lease(OTHER_LEASE, OTHER)
    .claim(SECOND, OTHER_LEASE, OTHER)
    .life("handler.end", SECOND, OTHER)
    .settle(SECOND, process=OTHER),
    "a former owner is refused": _dead()
    .rescue()
    .answer(Phase.FAIL, "completed")
    .job(By("request_cancel"), state=State.CANCELLED),
    "a frozen owner is rescued by expiry, and its code is excused": _begun()
    .say("process.freeze", Phase.LIFE, WORKER)
    .later(40)
    .end_lease(by=OTHER, overdue=10, is_judged=True)
    .rescue()
    .lease(OTHER_LEASE, OTHER)
    .claim(SECOND, OTHER_LEASE, OTHER)
    .say("process.thaw", Phase.LIFE, WORKER)
    .life("handler.end", FIRST)
    .life("handler.end", SECOND, OTHER)
    .settle(SECOND, process=OTHER),
    "an operator runs it again": _stopped()
    .settle()
    .say("reopen", Phase.INVOKE, job=JOB)
    .job(By("reopen"), state=State.AVAILABLE, token=Token(None, 1), lease=None)
    .claim(SECOND)
    .life("handler.end", SECOND)
    .settle(SECOND),
    "a worker's graceful end is free": _stopped()
    .end_lease(is_free=True, overdue=-20)
    .rescue(crashes=0)
    .job(By("request_cancel"), state=State.CANCELLED),
    "it is held for the operator": _dead().rescue(state=State.HELD),
    "a store that forgets may lose what it acknowledged": _begun().say(
        "job", Phase.TRUTH, job=JOB, before=None, after=None, by=By(FAIL_OVER)
    ),
}

BAD = {
    "owner changes without a move": ("S1", _begun().job(token=SECOND)),
    "claimed while held": ("S1", Tale().job().job(state=State.HELD).lease().claim()),
    "one token told to two workers": ("S1", _begun().say("claim", Phase.OK, OTHER, job=JOB, token=FIRST)),
    "told a token that was never made": ("S1", _begun().say("claim", Phase.OK, job=JOB, token=SECOND)),
    "code starts with a token that was never made": ("S1", _begun().life("handler.start", SECOND, OTHER)),
    "the same token again": ("S2", _dead().rescue().lease(OTHER_LEASE, OTHER).claim(FIRST, OTHER_LEASE, OTHER)),
    "claim number goes down": ("S2", _dead().rescue().job(token=NOBODY)),
    "progress of somebody else": ("S3", _begun().job(By("report", SECOND), witness=str(FIRST))),
    "progress that says another token": ("S3", _begun().job(witness=str(SECOND))),
    "settled by somebody else": ("S3", _stopped().settle(SECOND)),
    "completed with another one's result": ("S3", _stopped().job(state=State.COMPLETED, result=str(SECOND))),
    "an ended lease lives again": ("S3", _stopped().end_lease().lease()),
    "finished comes back": ("S4", _stopped().settle().job(state=State.AVAILABLE)),
    "finished changes": ("S4", _stopped().settle().job(state=State.FAILED)),
    "rescued from the living": ("S5", _stopped().rescue()),
    "lease judged before it expired": ("S5", _begun().end_lease(by=OTHER, overdue=-0.5, is_judged=True)),
    "lease of a living process ended": ("S5", _begun().end_lease(by=OTHER)),
    "acknowledged and not there": ("S6", Tale().say("enqueue", Phase.OK, job=JOB)),
    "removed": ("S6", _begun().say("job", Phase.TRUTH, job=JOB, before=None, after=None)),
    "claimed for an ended lease": ("S8", Tale().job().lease().end_lease().claim()),
    "claimed for a lease that ran out": ("S8", Tale().job().lease().later(31).claim()),
    "code starts past the deadline": ("S8", Tale().job().lease().later(26).claim()),
    "moved while its code runs": ("S8", _begun().settle()),
    "two attempts run at once": (
        "S8",
        _begun().job(By("exchange", FIRST), state=State.AVAILABLE, token=Token(None, 1), lease=None).claim(SECOND),
    ),
    "crash not counted": ("S9", _dead().rescue(crashes=0)),
    "charged for a free end": ("S9", _stopped().end_lease(is_free=True).rescue(crashes=1)),
    "goes on beyond its crashes": ("S9", _dead().rescue(crashes=3)),
    "goes on beyond its failures": (
        "S9",
        _stopped().settle(state=State.AVAILABLE, token=Token(None, 1), lease=None, failures=3),
    ),
    "attempt not counted": ("S9", Tale().job().lease().job(By("claim"), state=State.RUNNING, token=FIRST, lease=LEASE)),
    "inserted twice": ("S10", _begun().say("job", Phase.TRUTH, job=JOB, before=None, after=JobRow(State.AVAILABLE, NOBODY))),
    "done and denied": ("S10", _stopped().settle().answer(Phase.FAIL, "completed")),
    "confirmed and not done": ("S10", _stopped().answer(Phase.OK, "completed")),
    "confirmed though another outcome was done": ("S10", _stopped().settle().answer(Phase.OK, "failed")),
    "there and reported missing": ("S10", _stopped().answer(Phase.FAIL, "completed", note="missing")),
    "code starts twice": ("S10", _begun().life("handler.start", FIRST)),
    "left running": ("L2", _begun()),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_where(name: str) -> None:
    report = GOOD[name].check()
    assert not report.violations, report.explain(History(GOOD[name].events))


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    wanted, tale = BAD[name]
    assert not tale.check().verdict(wanted)


def test_the_recovery_bound_counts_from_the_owners_death() -> None:
    rules = Rules(bound=10.0)
    slow = _begun().say("process.end", Phase.LIFE, WORKER).later(12).end_lease(by=OTHER).rescue()
    fast = _begun().say("process.end", Phase.LIFE, WORKER).later(5).end_lease(by=OTHER).rescue()
    assert not slow.check(rules).verdict("L1")
    assert fast.check(rules).verdict("L1")
    assert fast.check(rules).slowest_recovery == pytest.approx(5.2, abs=0.11)


def test_a_worker_in_care_is_buried_at_once_and_never_killed_without_a_reason() -> None:
    killed = _begun().say("process.end", Phase.LIFE, WORKER, note=f"SIGKILL, {IN_CARE}").later(2).end_lease(by=OTHER).rescue()
    report = killed.check(Rules(bound=60.0, local_bound=1.0, has_kills=False))
    assert not report.verdict("L1")
    assert not report.verdict("L3")
    assert killed.check(Rules(bound=60.0)).verdict("L1")
    assert killed.check(Rules(bound=60.0)).verdict("L3")


def test_no_crash_may_be_charged_where_none_happened() -> None:
    assert not _dead().rescue().check(Rules(has_crashes=False)).verdict("L8")
    assert _dead().rescue().check().verdict("L8")


def test_overlap_is_counted_apart_when_clocks_are_beyond_their_assumptions() -> None:
    tale = _begun().end_lease(by=OTHER, is_judged=True).rescue().lease(OTHER_LEASE, OTHER).claim(SECOND, OTHER_LEASE, OTHER)
    inside, outside = tale.check(), tale.check(Rules(is_timed=False, is_complete=False))
    assert (inside.overlaps_inside, inside.overlaps_outside) == (1, 0)
    assert (outside.overlaps_inside, outside.overlaps_outside) == (0, 1)
    assert not outside.violations


def test_unknown_outcomes_are_counted_apart() -> None:
    assert _stopped().answer(Phase.UNKNOWN, "completed").settle().check().unknown == {"settle": 1}


def test_each_property_has_a_bad_history() -> None:
    assert {name for name, _ in BAD.values()} | {"L1", "L3", "L8"} == set(PROPERTIES)


def test_a_violation_is_explained_by_the_story_of_its_job() -> None:
    tale = _begun().settle()
    story = tale.check().explain(History(tale.events))
    assert "S8" in story
    assert "handler.start token=1:" in story
    assert "running[1:" in story
    assert "completed[1:" in story


def test_a_digest_tells_two_histories_apart() -> None:
    assert History(_begun().events).digest() == History(_begun().events).digest()
    assert History(_begun().events).digest() != History(_stopped().events).digest()
