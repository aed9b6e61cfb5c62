"""Every verdict of the checker on lanes and limits: for each rule a history in which it holds and one in which it does not."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import State, Token
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.requests import ClaimKind, IsolatedJobs
from proof.checker.history import FAIL_OVER, By, History, JobRow, Phase
from proof.checker.lane_rows import ClaimRow, LimitRow, QueueRow
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import LEASE, NO_CLAIM, WORKER, Tale

LANES = Rules(is_complete=False, has_lanes=True)
START = 1_000_000  # seconds of the store's clock at the begin of a tale
QUEUE, ALL, TASK = Scope(ScopeKind.QUEUE, "default"), Scope(ScopeKind.ALL), Scope(ScopeKind.TASK, "t")


class Lanes(Tale):
    """A tale of jobs in lanes, by number, and of one worker. ``step``: how far the store's clock is beside the time of the tale."""

    def __init__(self, keys: str = "", **row: object) -> None:
        super().__init__()
        self.rows: dict[int, JobRow] = {}
        self.limits: dict[Scope, Limit] = {}
        self.claims = self.step = 0
        self.lease(slots=10)
        for key in keys:
            self.add(key.strip(), **row)

    @property
    def now(self) -> float:
        return START + self.step + self.time + 0.1

    def add(self, key: str = "", **row: object) -> "Lanes":
        """Enqueue a job with that key, which is due now."""
        number = len(self.rows) + 1
        first = JobRow(State.AVAILABLE, NO_CLAIM, task="t", lane=key, available_at=self.now)
        return self.change(number, By("enqueue"), before=None, row=structs.replace(first, **row))

    def change(self, number: int, by: By, *, before: JobRow | None, row: JobRow) -> "Lanes":
        row = structs.replace(row, due_in=row.available_at - self.now)
        self.rows[number] = row
        self.say("job", Phase.TRUTH, job=UUID(int=100 + number), before=before, after=row, by=by)
        return self

    def limit(self, scope: Scope = QUEUE, by: str = "set_limit", **parts: object) -> "Lanes":
        """Set a limit, or remove it."""
        before, after = self.limits.pop(scope, None), Limit(**parts) if parts else None  # type: ignore[arg-type]
        if after is not None:
            self.limits[scope] = after
        rows = (None if each is None else LimitRow(scope, each) for each in (before, after))
        old, new = rows
        self.say("limit", Phase.TRUTH, before=old, after=new, by=By(by), note=str(scope))
        return self

    def weigh(self, **settings: object) -> "Lanes":
        self.say("queue.settings", Phase.TRUTH, after=QueueRow("default", **settings), by=By("set_queue"), note="default")  # type: ignore[arg-type]
        return self

    def take(self, *numbers: int, room: int = 1, is_received: bool = True, by: str = "claim", **more: object) -> "Lanes":
        """Claim these jobs; the answer reaches the worker or does not."""
        self.claims += 1
        taken = []
        for number in numbers:
            row = self.rows[number]
            token = Token(UUID(int=50 + self.claims), row.token.number + self.claims)
            running = structs.replace(row, state=State.RUNNING, token=token, lease=LEASE, attempt=row.attempt + 1)
            self.change(number, By(by), before=row, row=running)
            taken.append((UUID(int=100 + number), token))
        limited = ClaimKind.LIMITED if self.limits else ClaimKind.PLAIN
        asked = ClaimRow(at=round(self.now * 1e6), lease=LEASE, room=room, tasks=("t",), kind=limited, taken=tuple(taken))
        self.say("claim.made", Phase.TRUTH, lease=LEASE, after=structs.replace(asked, **more), by=By("claim"))
        for job, token in taken if is_received else ():
            self.say("claim", Phase.OK, WORKER, job=job, token=token)
        return self

    def end(self, *numbers: int, by: str = "exchange") -> "Lanes":
        """Complete jobs, which frees their slots."""
        for number in numbers:
            row = self.rows[number]
            self.change(number, By(by), before=row, row=structs.replace(row, state=State.COMPLETED, lease=None))
        return self

    def until(self, seconds: float) -> "Lanes":
        self.time = seconds
        return self

    def clock(self, step: float) -> "Lanes":
        """Set the store's clock forward or back."""
        self.step += step  # type: ignore[assignment]
        return self


def started(**limit: object) -> Lanes:
    """A job of key x has started under a limit, at 10 s."""
    return Lanes("xxxxy").limit(**limit).until(10.0).take(1)


def weighed(jobs: int) -> Lanes:
    """That many jobs of lane a are taken one by one while a job of lane b is due; a turn of lane a has three."""
    tale = Lanes("a" * 9 + "b").weigh(key_weights={"a": 3})
    for number in range(1, jobs + 1):
        tale.take(number)
    return tale


def ended_by_three(last: int) -> Lanes:
    """Turns of two jobs of lanes a and c are begun, and end in claims of three, and more follow while a job of lane b is due."""
    tale = Lanes("a" * 9 + "c" * 9 + "b").weigh(weight=2).take(1).take(2, 3, 4, room=3).take(10).take(11, 12, 13, room=3)
    for number in range(5, 5 + last):
        tale.take(number)
    return tale


def unanswered(jobs: int) -> Lanes:
    """Lane a is served again and again, and the worker knows it of the first claim only."""
    tale = Lanes("aaaaaab").take(1)
    for number in range(2, jobs + 1):
        tale.take(number, is_received=False)
    return tale


def kinds(plain: int, limited: int = 0) -> Lanes:
    """A job of a limited queue is due while others are claimed without limits, with a limited claim in between or without."""
    tale = Lanes("aaaaaa").add("", queue="mail").limit(Scope(ScopeKind.QUEUE, "mail"), concurrency=1)
    for number in range(1, plain + 1):
        tale.take(number, kind=ClaimKind.PLAIN)
        if number == limited:
            tale.take(is_whole=False)
    return tale


PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules of both histories, one in which it holds and one in which it does not
    "a queue has no more active jobs than its limit": (
        "S12",
        LANES,
        Lanes("ab").limit(concurrency=2).take(1).take(2),
        Lanes("ab").limit(concurrency=1).take(1).take(2),
    ),
    "a slot is free when its job has ended": (
        "S12",
        LANES,
        Lanes("ab").limit(concurrency=1).take(1).end(1).take(2),
        Lanes("ab").limit(concurrency=1).take(1).end(1).take(2, 1),
    ),
    "a key has no more active jobs than its limit": (
        "S12",
        LANES,
        Lanes("ab").limit(per_key=1).take(1).take(2),
        Lanes("aa").limit(per_key=1).take(1).take(2),
    ),
    "limits of a task and of the cluster count all queues": (
        "S12",
        LANES,
        Lanes("a").add("b", queue="mail").limit(TASK, concurrency=2).limit(ALL, concurrency=2).take(1).take(2),
        Lanes("a").add("b", queue="mail").limit(TASK, concurrency=2).limit(ALL, concurrency=1).take(1).take(2),
    ),
    "a claim of another kind does not exceed a limit": (
        "S12",
        LANES,
        Lanes("ab").limit(concurrency=1).take(1).take(room=0, kind=ClaimKind.PLAIN),
        Lanes("ab").limit(concurrency=1).take(1).take(2, kind=ClaimKind.PLAIN),
    ),
    "jobs that run when a limit is lowered may go on, and no other one begins": (
        "S12",
        LANES,
        Lanes("aaa").take(1).take(2).limit(concurrency=1).end(1, 2).take(3),
        Lanes("aaa").take(1).take(2).limit(concurrency=1).end(1).take(3),
    ),
    "a raised limit counts from then on": (
        "S12",
        LANES,
        Lanes("aa").limit(concurrency=1).take(1).limit(concurrency=2).take(2),
        Lanes("aa").limit(concurrency=2).take(1).limit(concurrency=1).take(2),
    ),
    "starts are spaced by a rate": (
        "S24",
        LANES,
        started(rate="1/s").until(11.0).take(2),
        started(rate="1/s").until(10.8).take(2),
    ),
    "a burst may start at once, and then the rate holds": (
        "S24",
        LANES,
        started(rate="1/s", burst=3).take(2).take(3).until(11.0).take(4),
        started(rate="1/s", burst=2).take(2).take(3),
    ),
    "each key has a rate": (
        "S24",
        LANES,
        started(rate_per_key="1/s").take(5),
        started(rate_per_key="1/s").take(2),
    ),
    "a limit that stays as it is forgets no start": (
        "S24",
        LANES,
        started(rate="1/s").limit(rate="1/s", concurrency=9).take(2),
        started(rate="1/s").limit(rate="1/s").take(2),
    ),
    "a clock that was set back stops a rate for one burst": (
        "S24",
        LANES,
        started(rate="1/10s").take(room=0).clock(-5.0).until(26.0).take(2),
        started(rate="1/10s").take(room=0).clock(-5.0).until(16.0).take(2),
    ),
    "a claim takes a job that is due": ("L14", LANES, Lanes().take(), Lanes("a").take()),
    "a claim is filled": ("L14", LANES, Lanes("aa").take(1, 2, room=3), Lanes("aa").take(1, room=3)),
    "a claim that left lanes out may take nothing": (
        "L14",
        LANES,
        Lanes("a").take(is_whole=False).take(1, room=2),
        Lanes("a").take(),
    ),
    "a limited claim takes what has room": (
        "L14",
        LANES,
        Lanes("aa").limit(concurrency=1).take(1, room=5),
        Lanes("aa").limit(concurrency=2).take(1, room=5),
    ),
    "a limited claim takes what a rate allows": (
        "L14",
        LANES,
        started(rate="1/s").until(10.5).take(),
        started(rate="1/s").until(11.5).take(),
    ),
    "a plain claim takes what no limit counts": (
        "L14",
        LANES,
        Lanes("a").limit(concurrency=1).take(kind=ClaimKind.PLAIN),
        Lanes("a").limit(concurrency=1).limit().take(kind=ClaimKind.PLAIN),
    ),
    "lanes take turns": (
        "L13",
        LANES,
        Lanes("aaab").take(1).take(4).take(2).take(3),
        Lanes("aaaaab").take(1).take(2).take(3),
    ),
    "a turn is as long as the weight of its lane": ("L13", LANES, weighed(4), weighed(5)),
    "a begun turn may end in a larger claim": ("L13", LANES, ended_by_three(1), ended_by_three(2)),
    "a claim whose answer is lost moves no turn": (
        "L13",
        LANES,
        unanswered(6),
        Lanes("aaaaaab").take(1).take(2).take(3),
    ),
    "a worker asks the limited lanes too": ("L13", LANES, kinds(4, limited=2), kinds(4)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_of_lanes_knows_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    assert not bad.check(rules).verdict(wanted)
    report = good.check(rules)
    assert not [each for each in report.violations if each.name in ("S12", "S24", "L13", "L14")], report.explain(
        History(good.events)
    )
    assert report.checked[wanted]


@pytest.mark.parametrize(
    "row",
    [
        {"available_at": START + 99.0},
        {"task": "other"},
        {"queue": "mail"},
        {"expires_in": -2.0},
        {"state": State.HELD},
        {"crashes": 99},
    ],
)
def test_l14_a_claim_may_take_nothing_if_the_only_job_is_not_for_it(row: dict[str, object]) -> None:
    assert Lanes("a", **row).take(queues=("default",)).check(LANES).verdict("L14")


@pytest.mark.parametrize(
    "claim", [{"is_entitled": False}, {"is_named": True}, {"room": 0}, {"isolated": IsolatedJobs.ONLY}, {"tasks": ("x",)}]
)
def test_l14_a_claim_that_may_take_nothing_takes_nothing(claim: dict[str, object]) -> None:
    assert Lanes("a").take(**claim).check(LANES).verdict("L14")  # type: ignore[arg-type]


def test_l14_paused_queues_and_locked_rows_are_left_out() -> None:
    assert Lanes("a").queue("paused default").queue("resumed x").check(LANES).verdict("L14")
    paused = Lanes("a")
    paused.queue("paused default")
    assert paused.take().check(LANES).verdict("L14")
    locked = Lanes("a")
    locked.say("row.lock", Phase.LIFE, "a stranger", job=UUID(int=101))
    assert locked.take().check(LANES).verdict("L14")


def test_a_store_that_fails_over_may_forget_starts_and_slots() -> None:
    tale = started(rate="1/s", concurrency=1)
    row = tale.rows[1]
    tale.change(1, By(FAIL_OVER), before=row, row=structs.replace(row, state=State.AVAILABLE, token=NO_CLAIM, lease=None))
    report = tale.take(1).check(LANES)
    assert report.verdict("S12")
    assert report.verdict("S24")
    assert tale.until(20.0).end(1).take().check(LANES).verdict("L14")


def test_lanes_are_judged_only_where_claims_are_recorded() -> None:
    assert Lanes("ab").limit(concurrency=1).take(1).take(2).check(Rules(is_complete=False)).verdict("S12")
