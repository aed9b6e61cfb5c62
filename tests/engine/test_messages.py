"""The messages between a supervisor and its workers survive the pipe unchanged."""

from uuid import UUID

import pytest

from holdfast._core.job import AttemptOutcome, Failure, Reason, RescueReason, State, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.tallies import Distribution, TallyDelta
from holdfast._engine import messages
from tests.engine.support import SETTINGS

JOB = UUID(int=5)
TRANSITIONS = (
    Transition(
        job=JOB, token=Token(UUID(int=6), 7), to=State.COMPLETED, failures=0, crashes=0, retention=1.0, result=b'"\xc3\xa4"'
    ),
    Transition(
        job=JOB,
        token=Token(UUID(int=6), 8),
        to=State.FAILED,
        failures=2,
        crashes=1,
        retention=1.0,
        reason=Reason.HANDLER_ERROR,
        error=Failure("ValueError", "no", "trace"),
        record=AttemptOutcome.FAILED,
        delay=1.5,
    ),
)
TOKEN = Token(UUID(int=3), 7)
ALL = (
    messages.WorkerHello(SETTINGS, ("a", "b"), ("q",), ("no /proc",)),
    messages.StartRefused(("no app", "no task")),
    messages.LeaseGranted(UUID(int=1), "worker", 12.5),
    messages.Ready(),
    messages.LeaseRenewed(13.5),
    messages.LeaseLost(),
    messages.CancelJobs((JOB,)),
    messages.ClaimsVoided(3),
    messages.Ping(),
    messages.Pong(float("-inf"), True),
    messages.TalliesSent(
        TallyDelta(((("attempts", "default", "mail", "completed"), 3),), ((("events", "x"), Distribution.empty()),))
    ),
    messages.UndeliveredOutcomes(TRANSITIONS),
    messages.CodeUnresponsive((JOB,)),
    messages.ClaimsLost(),
    messages.AttemptWaiting(JOB, TOKEN, 60.0),
    messages.AttemptStarted(JOB, TOKEN, 3.5, 60.0, None),
    messages.AttemptProgressed(JOB, 4.5),
    messages.AttemptStopped(JOB, TOKEN),
    messages.AttemptOverdue(),
    messages.DeadlineExceeded(JOB, TOKEN, RescueReason.STALLED),
    messages.EventForwarded("job.rescued", {"job": str(JOB), "crashes": 1, "delay": None}),
    messages.DumpStacks(),
    messages.Drain(20.0),
)


@pytest.mark.parametrize("message", ALL, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_pipe_unchanged(message: messages.Message) -> None:
    assert messages.decode(messages.encode(message)) == message


def test_every_kind_of_message_is_tested_here() -> None:
    assert {type(message) for message in ALL} == set(messages.Message.__args__)
