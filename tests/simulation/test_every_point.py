"""Small worlds, enumerated: every call of the first worker, supervisor and client meets every fault once."""

import pytest

from holdfast._core.timing import LeaseTiming
from holdfast.settings import Settings
from holdfast.testing.decisions import Birth, Mishap
from holdfast.testing.fates import Fault, Mix
from holdfast.testing.plans import Mode, Plan
from holdfast.testing.simulation import Outcome, perform

TTL = 6.0
CALLS = {"worker 0.1": 40, "supervisor 0.1": 40, "client 0": 4}
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


def _perform(role: str, call: int, fault: Fault) -> Outcome:
    """Two supervisors with a worker each, three jobs with one key among them, one fault."""
    settings = Settings(
        url="simulated:",
        timing=LeaseTiming.of(TTL),
        recovery_interval=TTL / 5,
        poll_interval=TTL / 5,
        max_block=4 * TTL,
        grace=TTL / 2,
    )
    plan = Plan(
        mode=Mode.SAFETY,
        lease_clock="server",
        settings=settings,
        supervisors=2,
        processes=1,
        concurrency=2,
        jobs=3,
        clients=1,
        tasks=("resuming", "answering", "quick", "parent"),
        operations=(),
        chaos=TTL,
        patience=20 * TTL,
        interval=TTL,
        strikes=(),
        mix=Mix(latency=0.02, timeout=TTL / 5, slowest=2 * TTL, latest=2 * TTL),
        rate_error=0.001,
        step=0.0,
        keys=1,
        script=(*(Birth(0, job) for job in range(3)), Mishap(role, "", call, fault)),
    )
    return perform(plan, call)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("role", CALLS)
def test_one_fault_at_every_call(role: str, fault: Fault) -> None:
    for call in range(1, CALLS[role] + 1):
        outcome = _perform(role, call, fault)
        assert outcome.is_clean, f"call {call}: {outcome.explain()}"


def test_the_calls_that_meet_a_fault_are_really_made() -> None:
    plain = _perform("nobody", 0, Fault.NONE)
    assert plain.is_clean
    lost = _perform("client 0", 1, Fault.ANSWER_LOST)
    assert lost.report.unknown["enqueue"] > 0
    dead = _perform("worker 0.1", 3, Fault.CRASH_BEFORE)
    assert any(event.what == "process.end" and "SIGKILL" in event.note for event in dead.history)
