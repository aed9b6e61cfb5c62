"""A message between a worker and its runner survives encoding and decoding."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.children import Children
from holdfast._core.job import Failed, Failure, NewJob, NoResult, Reason
from holdfast._core.member import Input, Member
from holdfast._core.outcome import Cancel, Done, Fail, Invalid, Outcome, Raised, Retry, Snooze, StepsChanged, Suspend, WaitFor
from holdfast._core.policy import Policy
from holdfast._core.steps import SignalTaken, StepList, StepRecord
from holdfast._core.workflow import Edge, NewMember
from holdfast._engine.runners import messages
from tests.engine.runners_support import processed
from tests.engine.support import JOB, claim

STEP = StepRecord(name="charge", nth=2, place=3, is_sequential=True, result=b"1")
CHILD = NewMember(NewJob(id=JOB, task="t", payload=b"{}", policy=Policy()), Member(flow=JOB, node="t", inputs=(Input("x", JOB),)))
BOOM = Failure("ValueError", "boom", "Traceback …")
OUTCOMES: list[Outcome] = [
    Done(b'{"n":1}'),
    Retry(),
    Retry(after="5s", reason="later"),
    Snooze("5m"),
    Cancel("enough"),
    Fail("for good"),
    Raised(BOOM),
    Raised(BOOM, is_final=True),
    Invalid(Reason.PAYLOAD_INVALID, BOOM),
    Invalid(Reason.RESULT_INVALID, BOOM),
    Suspend(5.0),
    Suspend(5.0, "go"),
    WaitFor(Children(members=(CHILD,), edges=(Edge(JOB, JOB, tolerates=True),), records=(STEP,))),
    StepsChanged(BOOM),
]
MESSAGES: list[messages.Message] = [
    messages.Run(claim(processed(timeout="5s"), b'{"n": 1}', failures=2)),
    messages.CancelRequested(),
    messages.JobLostNotice(),
    messages.CallAnswered(1),
    messages.CallAnswered(2, messages.CallProblem.LOST, "taken"),
    messages.CallAnswered(3, answer=EnqueueAnswer({JOB: Duplicate(JOB, is_same=True)})),
    messages.CallAnswered(3, steps=StepList((STEP,), datetime(2024, 5, 1, 12, 0, 0, 7, tzinfo=UTC))),
    messages.CallAnswered(3, taken=SignalTaken(b"1")),
    messages.CallAnswered(3, outcomes={JOB: b"1", UUID(int=9): Failed(NoResult.TASK_CANCELLED)}),
    messages.OutcomesAsked(4, (JOB,)),
    messages.ParentsAsked(4),
    messages.CallAnswered(4, parents={"build": (JOB,)}),
    messages.StepsAsked(4),
    messages.StepRecorded(4, STEP),
    messages.SignalAsked(4, "go", STEP),
    messages.Shutdown(),
    messages.Ready(),
    messages.Refused(("no module",)),
    messages.RunStarted(("new",)),
    messages.TaskMissing(),
    messages.Progressed("walk", 0.5, "half"),
    messages.Checkpointed(4, b"1"),
    messages.Enqueued(5, NewJob(id=JOB, task="t", payload=b"{}", policy=Policy(), tags=("a",))),
    *(messages.RunEnded(messages.OutcomeData.of(outcome), 7) for outcome in OUTCOMES),
    messages.RunEnded(unused_steps=("charge",)),
]


def shown(outcome: Outcome) -> object:
    """Return what to compare of an outcome: exceptions are equal only to themselves."""
    return (type(outcome), vars(outcome)) if isinstance(outcome, Exception) else outcome


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_an_outcome_survives_the_pipe(outcome: Outcome) -> None:
    message = messages.decode(messages.encode(messages.RunEnded(messages.OutcomeData.of(outcome))))
    assert isinstance(message, messages.RunEnded)
    assert message.verdict is not None
    assert shown(message.verdict.outcome()) == shown(outcome)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_pipe(message: messages.Message) -> None:
    assert messages.decode(messages.encode(message)) == message
