"""Every verdict of the checker on workflows, steps, signals and voids: for each rule a history in which it holds, and one in which not."""

from uuid import UUID

import pytest
from msgspec import structs

from holdfast._core.job import AttemptOutcome, Reason, State, Token
from holdfast._core.lifecycle import Precondition
from holdfast._core.member import Input, Member
from holdfast._core.steps import CALL
from holdfast._core.workflow import Edge
from proof.checker.flow_rows import FlowRow, SignalRow, StepRow
from proof.checker.history import IN_CARE, By, History, JobRow, Phase
from proof.checker.verdicts import Rules
from tests.simulation.hand_made_histories import LEASE, NO_CLAIM, WORKER, Tale

ROOT, LEFT, RIGHT, CHILD = (UUID(int=number) for number in range(101, 105))
EDGES = (Edge(LEFT, CHILD), Edge(RIGHT, CHILD), Edge(LEFT, ROOT, True), Edge(RIGHT, ROOT, True), Edge(CHILD, ROOT))
OPEN, WHOLE, VOIDED = Rules(is_complete=False), Rules(), Rules(is_complete=False, void_bound=5.0)
PAUSED = FlowRow(is_paused=True, edges=EDGES)


def token_of(job: UUID, number: int = 1) -> Token:
    """The token of a claim of a member."""
    return Token(UUID(int=1000 * number + job.int), number)


class Flow(Tale):
    """A tale of two parents, their child and the root."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[UUID, JobRow] = {}
        self.lease()
        for job, waits in ((LEFT, 0), (RIGHT, 0), (CHILD, 2), (ROOT, 3)):
            inputs = (Input("left", LEFT),) if job == CHILD else ()
            member = Member(flow=ROOT, node=f"{job.int}", is_gate=job == ROOT, needs=waits, waits=waits, inputs=inputs)
            self.put(job, "enqueue", state=State.BLOCKED, member=member)
        self.put(LEFT, "enqueue", state=State.AVAILABLE).put(RIGHT, "enqueue", state=State.AVAILABLE).flow(FlowRow(edges=EDGES))

    def put(self, job: UUID, by: By | str, **changes: object) -> "Flow":
        """Change the row of a member."""
        before = self.rows.get(job)
        row = JobRow(State.BLOCKED, NO_CLAIM) if before is None else before
        after = self.rows[job] = structs.replace(row, **changes)
        by = By(by) if isinstance(by, str) else by
        self.say("job", Phase.TRUTH, job=job, before=before, after=after, by=by, token=after.token, lease=after.lease)
        return self

    def count(self, job: UUID, needs: int, waits: int) -> "Flow":
        """Change the counters of a member."""
        member = self.rows[job].member
        assert member is not None
        return self.put(job, "pass_on", member=structs.replace(member, needs=needs, waits=waits))

    def remove(self, job: UUID) -> "Flow":
        before = self.rows.pop(job)
        self.say("job", Phase.TRUTH, job=job, before=before, after=None, by=By("delete"), token=before.token)
        return self

    def flow(self, row: FlowRow) -> "Flow":
        """Change the state of the workflow, in a separate write."""
        self.say("flow", Phase.TRUTH, job=ROOT, after=row)
        return self.written()

    def written(self) -> "Flow":
        self.say("written", Phase.TRUTH, note="2026-01-01T00:00:00+00:00")
        return self

    def claimed(self, job: UUID, number: int = 1) -> "Flow":
        """Claim a member, in a separate write."""
        attempt = self.rows[job].attempt + 1
        self.put(job, "claim", state=State.RUNNING, token=token_of(job, number), lease=LEASE, attempt=attempt)
        return self.written()

    def done(self, job: UUID) -> "Flow":
        """Complete a member, in a write that goes on."""
        token = self.rows[job].token
        by = By("exchange", token, Precondition.TOKEN, record=AttemptOutcome.COMPLETED)
        return self.put(job, by, state=State.COMPLETED, result=str(token), lease=None)

    def parents(self) -> "Flow":
        """Complete both parents and release the child."""
        self.claimed(LEFT).claimed(RIGHT).done(LEFT).count(CHILD, 1, 1).count(ROOT, 2, 2).written()
        return self.done(RIGHT).count(ROOT, 1, 1).put(CHILD, "pass_on", state=State.AVAILABLE).written()

    def over(self) -> "Flow":
        """Complete all of it."""
        return self.parents().claimed(CHILD).done(CHILD).put(ROOT, "pass_on", state=State.COMPLETED).written()

    def given(self, result: str) -> "Flow":
        """Report what the child got from its parent."""
        self.say("inputs.given", Phase.LIFE, job=CHILD, token=token_of(CHILD), note=f'{{"left":"{result}"}}')
        return self

    def step(self, token: Token, result: str | None = '"a"') -> "Flow":
        """Write the record of a step of the first parent."""
        self.say("step", Phase.TRUTH, job=LEFT, token=token, by=By("record_step", token), after=StepRow("s", 1, result))
        return self.written()

    def returned(self, result: str, nth: int = 1) -> "Flow":
        self.say("step.returned", Phase.LIFE, job=LEFT, token=token_of(LEFT), note=f"s|{nth}|{result}")
        return self

    def kept(self, call: int = 1) -> "Flow":
        """Keep a signal for the first parent."""
        signal = SignalRow(UUID(int=call), "go", '"yes"')
        self.say("signal.kept", Phase.TRUTH, job=LEFT, after=signal, by=By("signal", call=signal.call))
        return self.written()

    def taken(self, token: Token) -> "Flow":
        """Consume that signal by a step."""
        by = By("take_signal", token)
        self.say("step", Phase.TRUTH, job=LEFT, token=token, by=by, after=StepRow(":wait_for:go", 1, '"yes"'))
        self.say("signal.taken", Phase.TRUTH, job=LEFT, token=token, by=by, after=SignalRow(UUID(int=1), "go", '"yes"'))
        return self.written()


OWNER, FORMER = token_of(LEFT), token_of(LEFT, 0)
BORN, OUTSIDE = UUID(int=105), UUID(int=106)
GROWN = FlowRow(edges=(*EDGES, Edge(BORN, LEFT, True, is_child=True), Edge(BORN, ROOT, True)))


class Growing(Flow):
    """A tale whose first parent adds a child, or on which a job of another flow depends."""

    def adopted(self, right: Token = OWNER, *, counted: int = 4, remembered: str = f'["{BORN}"]') -> "Growing":
        """Let the first parent wait for a child."""
        self.claimed(LEFT)
        by = By("exchange", OWNER, Precondition.TOKEN, record=AttemptOutcome.SNOOZED)
        self.put(LEFT, by, state=State.BLOCKED, token=Token(None, 1), lease=None)
        self.put(BORN, By("adopt", right, parent=LEFT), member=Member(flow=ROOT, node="born"))
        self.put(LEFT, "adopt", member=Member(flow=ROOT, node="101", needs=1, waits=1, is_suspended=True))
        self.count(ROOT, counted, counted).put(BORN, "adopt", state=State.AVAILABLE)
        if remembered:
            by = By("adopt", right, parent=LEFT)
            self.say("step", Phase.TRUTH, job=LEFT, token=right, by=by, after=StepRow(f"{CALL}born", 1, remembered))
        self.flow(GROWN)
        return self

    def born(self) -> "Growing":
        """Complete the child, and let its parent go on."""
        self.claimed(BORN).done(BORN).count(ROOT, 3, 3).put(LEFT, "pass_on", state=State.AVAILABLE).written()
        return self

    def got(self, result: str) -> "Growing":
        """Report what the parent got from its child."""
        self.claimed(LEFT, 2)
        note = f'{CALL}born|1|["{result}"]'
        self.say("children.returned", Phase.LIFE, job=LEFT, token=token_of(LEFT, 2), note=note)
        return self

    def awaited(self) -> "Growing":
        """Enqueue a job of another flow that depends on the first parent."""
        self.put(OUTSIDE, "enqueue", member=Member(flow=OUTSIDE, node="outside", needs=1, waits=1))
        self.say("flow", Phase.TRUTH, job=OUTSIDE, after=FlowRow(edges=(Edge(LEFT, OUTSIDE, parent_flow=ROOT),))).written()
        return self

    def over_rest(self) -> "Growing":
        """Complete all that is left, and forget the first parent."""
        self.claimed(RIGHT).done(RIGHT).count(ROOT, 1, 1).put(CHILD, "pass_on", state=State.AVAILABLE).written()
        self.claimed(CHILD).done(CHILD).put(ROOT, "pass_on", state=State.COMPLETED).written()
        self.remove(LEFT).written()
        return self

    def left(self) -> "Growing":
        """Complete the first parent, in a write that goes on."""
        self.claimed(LEFT).done(LEFT).count(CHILD, 1, 1).count(ROOT, 2, 2)
        return self


def half() -> Flow:
    """One parent completes, and the write of its move is not over."""
    return Flow().claimed(LEFT).done(LEFT)


def failed(reason: Reason) -> Flow:
    """One parent fails, and so does the child, for this reason."""
    by = By("exchange", OWNER, Precondition.TOKEN, record=AttemptOutcome.FAILED)
    tale = Flow().claimed(LEFT).put(LEFT, by, state=State.FAILED, reason=Reason.PERMANENT, failures=1, lease=None)
    return tale.put(CHILD, "pass_on", state=State.FAILED, reason=reason).count(ROOT, 2, 1).written()


def gate_failed(*, is_before: bool) -> Flow:
    """A gate fails with its last parent, and its workflow is past its deadline: in that write or, ``is_before``, in an earlier one."""
    over, tale = FlowRow(edges=EDGES, ended_for=Reason.TIMED_OUT), Flow()
    member = tale.rows[CHILD].member
    assert member is not None
    tale.put(CHILD, "enqueue", member=structs.replace(member, is_gate=True)).claimed(LEFT).claimed(RIGHT)
    tale.done(LEFT).count(CHILD, 1, 1).count(ROOT, 2, 2).written()
    if is_before:
        tale.flow(over)
    by = By("exchange", token_of(RIGHT), Precondition.TOKEN, record=AttemptOutcome.FAILED)
    tale.put(RIGHT, by, state=State.FAILED, reason=Reason.PERMANENT, failures=1, lease=None)
    tale.put(CHILD, "pass_on", state=State.FAILED, reason=Reason.DEPENDENCY_FAILED)
    return tale.put(ROOT, "pass_on", state=State.FAILED, reason=Reason.TIMED_OUT).flow(over)


def blocked(seconds: float) -> Tale:
    """A worker whose event loop is blocked keeps a job that it has claimed, for so long."""
    tale = Tale().lease().say("worker.ready", Phase.LIFE, note=IN_CARE).job()
    tale.job(By("claim"), state=State.CLAIMED, token=Token(UUID(int=11), 1), lease=LEASE)
    tale.say("loop.blocked", Phase.LIFE, WORKER, note="20.0").later(seconds)
    by = By("exchange", Token(UUID(int=11), 1), Precondition.VOIDED)
    return tale.job(by, state=State.AVAILABLE, token=Token(None, 1), lease=None)


PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules of both histories, one in which it holds and one in which it does not
    "a child is released when its join is satisfied": (
        "S18",
        OPEN,
        Flow().parents(),
        half().put(CHILD, "pass_on", state=State.AVAILABLE).count(ROOT, 2, 2).written(),
    ),
    "a member runs again only for an operator": (
        "S18",
        OPEN,
        Flow().parents(),
        Flow().parents().put(LEFT, "pass_on", state=State.AVAILABLE).written(),
    ),
    "a child fails because of its parents": ("S18", OPEN, failed(Reason.DEPENDENCY_FAILED), failed(Reason.PERMANENT)),
    "a gate fails because of its parents only before its workflow is cancelled": (
        "S18",
        OPEN,
        gate_failed(is_before=False),
        gate_failed(is_before=True),
    ),
    "counters are lowered in the write of the move": (
        "S19",
        OPEN,
        half().count(CHILD, 1, 1).count(ROOT, 2, 2).written(),
        half().written(),
    ),
    "a child whose join is satisfied is not left": (
        "S19",
        OPEN,
        Flow().parents(),
        Flow().claimed(LEFT).claimed(RIGHT).done(LEFT).done(RIGHT).count(CHILD, 0, 0).count(ROOT, 1, 1).written(),
    ),
    "nothing of a paused workflow is claimed": (
        "S20",
        OPEN,
        Flow().claimed(LEFT).put(RIGHT, "steer_flow", state=State.HELD).flow(PAUSED),
        Flow().put(LEFT, "steer_flow", state=State.HELD).put(RIGHT, "steer_flow", state=State.HELD).flow(PAUSED).claimed(LEFT),
    ),
    "nothing of a paused workflow is available": (
        "S20",
        OPEN,
        Flow().claimed(LEFT).put(RIGHT, "steer_flow", state=State.HELD).flow(PAUSED),
        Flow().flow(PAUSED),
    ),
    "a child gets the results of its parents": (
        "S21",
        OPEN,
        Flow().parents().claimed(CHILD).given(str(token_of(LEFT))),
        Flow().parents().claimed(CHILD).given(str(token_of(RIGHT))),
    ),
    "a step is written by the owner": ("S22", OPEN, Flow().claimed(LEFT).step(OWNER), Flow().claimed(LEFT).step(FORMER)),
    "a step is written once": ("S22", OPEN, Flow().claimed(LEFT).step(OWNER), Flow().claimed(LEFT).step(OWNER).step(OWNER)),
    "a step returns what its record has": (
        "S22",
        OPEN,
        Flow().claimed(LEFT).step(OWNER).returned('"a"'),
        Flow().claimed(LEFT).step(OWNER).returned('"b"'),
    ),
    "code goes on after a record": (
        "S22",
        OPEN,
        Flow().claimed(LEFT).step(OWNER, None).returned(""),
        Flow().claimed(LEFT).step(OWNER, None).returned("", 2),
    ),
    "a signal is consumed by the owner": (
        "S23",
        OPEN,
        Flow().claimed(LEFT).kept().taken(OWNER),
        Flow().claimed(LEFT).kept().taken(FORMER),
    ),
    "a signal is kept once": ("S23", OPEN, Flow().kept().kept(2), Flow().kept().kept()),
    "a job whose signal has come does not wait": (
        "S23",
        OPEN,
        Flow().kept(),
        Flow().kept().put(LEFT, "exchange", awaits="go").written(),
    ),
    "members are kept until their root has ended": (
        "S27",
        OPEN,
        Flow().over().remove(LEFT).remove(RIGHT).remove(CHILD).remove(ROOT).written(),
        Flow().parents().remove(LEFT).written(),
    ),
    "a root is forgotten after its members": (
        "S27",
        OPEN,
        Flow().over().remove(LEFT).remove(RIGHT).remove(CHILD).remove(ROOT).written(),
        Flow().over().remove(ROOT).written(),
    ),
    "a job that waits for its children goes on after them": (
        "S18",
        OPEN,
        Growing().adopted().born(),
        Growing().adopted().put(LEFT, "pass_on", state=State.AVAILABLE).written(),
    ),
    "a workflow ends after all its members": (
        "S18",
        OPEN,
        Flow().over(),
        Flow().parents().claimed(CHILD).put(ROOT, "pass_on", state=State.COMPLETED).written(),
    ),
    "children are added by the owner": ("S7", OPEN, Growing().adopted(), Growing().adopted(FORMER)),
    "a root waits for the children of its members": ("S19", OPEN, Growing().adopted(), Growing().adopted(counted=3)),
    "the children of a job are remembered": ("S22", OPEN, Growing().adopted(), Growing().adopted(remembered="")),
    "a job gets the outcomes of its children": (
        "S21",
        OPEN,
        Growing().adopted().born().got(str(token_of(BORN))),
        Growing().adopted().born().got(""),
    ),
    "jobs of other flows are released in the write of the move": (
        "S19",
        OPEN,
        Growing().awaited().left().put(OUTSIDE, "pass_on", state=State.AVAILABLE).written(),
        Growing().awaited().left().written(),
    ),
    "a job is kept while one of another flow waits": (
        "S27",
        OPEN,
        Growing().awaited().left().put(OUTSIDE, "pass_on", state=State.AVAILABLE).written().over_rest(),
        Growing().awaited().left().written().over_rest(),
    ),
    "a workflow ends": ("L12", WHOLE, Flow().over().say("done", Phase.LIFE), Flow().say("done", Phase.LIFE)),
    "claims of a blocked worker are back": ("L16", VOIDED, blocked(3.0), blocked(12.0)),
    "a repair changes nothing of an intact workflow": (
        "L17",
        OPEN,
        Flow().say("revive", Phase.OK, note=""),
        Flow().say("revive", Phase.OK, note=str(ROOT)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_of_workflows_knows_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    assert not bad.check(rules).verdict(wanted)
    report = good.check(rules)
    assert not report.violations, report.explain(History(good.events))
    assert report.checked[wanted]


def test_a_damaged_workflow_may_be_repaired_and_must_be() -> None:
    tale = Flow()
    member = tale.rows[CHILD].member
    assert member is not None
    tale.put(CHILD, "drift", member=structs.replace(member, waits=3)).written()
    assert tale.check(OPEN).verdict("S19")
    assert not tale.check(WHOLE).verdict("L17")
    tale.put(CHILD, "revive", member=member).say("revive", Phase.OK, note=str(ROOT))
    assert tale.check(OPEN).verdict("L17")
