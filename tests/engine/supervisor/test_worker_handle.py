"""What a supervisor decides about one worker: when it is drained or killed, and which jobs pay."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from holdfast._core.job import RescueReason
from holdfast._core.lifecycle import LeaseEnd
from holdfast._engine import messages
from holdfast._engine.supervisor.recovery import Contact
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.host import Exit
from holdfast.testing.clock import FakeClock
from tests.engine.machines import MemoryChild
from tests.engine.support import LEASE, SETTINGS, TIMING, Log

MAX_BLOCK, GRACE = 300.0, 20.0
SECOND = 1.0
KILLED = Exit(signal="SIGKILL")


class WatchedWorker:
    """The handle of a worker that is ready, answers every ping at once and reaches the store, until a test changes that."""

    def __init__(self) -> None:
        self.clock, self.log = FakeClock(), Log()
        self.child = MemoryChild(7)
        self.contact = Contact(TIMING, self.clock.monotonic)
        self.handle = WorkerHandle(self.child, now=self.clock.monotonic, events=self.log.events)
        self.handle.handle(messages.WorkerHello(SETTINGS, ("t",), ()))
        self.handle.lease_granted(LEASE, self.clock.monotonic())
        self.handle.handle(messages.Ready())
        self.sent: list[messages.Message] = []
        self.answers_pings = self.store_answers_worker = self.store_answers_supervisor = True
        self.answered = self.clock.monotonic()

    def passes(self, seconds: float) -> None:
        """Let the supervisor watch once a second, beats included."""
        for _ in range(round(seconds / SECOND)):
            self.clock.advance(SECOND)
            now = self.clock.monotonic()
            if self.store_answers_supervisor:
                self.contact.answered(now)
                self.handle.lease_renewed(now)
            else:
                self.contact.lost()
            if self.store_answers_worker:
                self.answered = now
            self.look()

    def look(self) -> None:
        self.handle.watch(TIMING, self.contact, max_block=MAX_BLOCK, grace=GRACE)
        for message in self.child.far.received():
            self.sent.append(message)
            if isinstance(message, messages.Ping) and self.answers_pings:
                self.handle.handle(messages.Pong(self.answered))

    @property
    def drains(self) -> list[float]:
        return [message.grace for message in self.sent if isinstance(message, messages.Drain)]


def watching(test: Callable[[WatchedWorker], None]) -> None:
    """Run the test in an event loop, which the futures of the handle need."""

    async def main() -> None:
        test(WatchedWorker())

    asyncio.run(main())


def test_a_healthy_worker_is_pinged_once_a_beat_and_neither_drained_nor_killed() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.passes(600)
        assert watched.child.kills == 0
        assert watched.drains == []
        pings = sum(isinstance(message, messages.Ping) for message in watched.sent)
        assert pings == 600 / TIMING.beat

    watching(test)


# stopped


def test_a_stopped_worker_is_killed_before_another_supervisor_may_judge_it() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.child.is_frozen, watched.answers_pings = True, False
        watched.passes(TIMING.ttl - TIMING.margin)
        assert watched.child.kills == 0
        watched.passes(1)
        assert watched.child.kills == 1
        assert watched.log.of("worker.killed") == [{"worker": "worker-1", "reason": "stopped"}]
        assert watched.handle.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL")

    watching(test)


def test_a_worker_that_is_stopped_briefly_several_times_is_not_killed() -> None:
    def test(watched: WatchedWorker) -> None:
        for _ in range(10):
            watched.child.is_frozen = True
            watched.passes(TIMING.ttl - TIMING.margin - 1)
            watched.child.is_frozen = False
            watched.passes(1)
        assert watched.child.kills == 0

    watching(test)


def test_a_stopped_worker_is_killed_after_one_beat_while_the_store_is_silent_as_it_may_hold_a_lock() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.child.is_frozen, watched.answers_pings, watched.store_answers_supervisor = True, False, False
        watched.passes(TIMING.beat)
        assert watched.child.kills == 0
        watched.passes(1)
        assert watched.child.kills == 1

    watching(test)


def test_a_beat_that_hangs_counts_as_silence_of_the_store() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.child.is_frozen, watched.answers_pings = True, False
        for _ in range(10):
            watched.clock.advance(SECOND)
            watched.look()
        assert watched.child.kills == 1

    watching(test)


# unresponsive


def test_a_worker_with_a_blocked_loop_is_killed_after_max_block_and_its_stacks_are_kept() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.passes(30)
        watched.answers_pings = watched.store_answers_worker = False
        watched.passes(MAX_BLOCK)
        assert watched.child.kills == 0
        assert watched.drains == []
        watched.passes(TIMING.beat + 1)
        assert watched.child.kills == 1
        assert watched.handle.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL", stacks="its stacks")

    watching(test)


def test_a_worker_whose_loop_runs_again_after_a_long_block_is_not_taken_for_cut_off() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.passes(30)
        watched.answers_pings = watched.store_answers_worker = False
        watched.passes(3 * TIMING.ttl)
        watched.handle.handle(messages.Pong(watched.answered))
        watched.answers_pings = watched.store_answers_worker = True
        watched.passes(100)
        assert watched.child.kills == 0
        assert watched.drains == []

    watching(test)


def test_l8_an_outage_longer_than_max_block_kills_no_worker_that_answers() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.store_answers_supervisor = watched.store_answers_worker = False
        watched.passes(2 * MAX_BLOCK)
        watched.store_answers_supervisor = True
        watched.passes(5)
        watched.store_answers_worker = True
        watched.passes(TIMING.ttl)
        assert watched.child.kills == 0
        assert watched.drains == []

    watching(test)


def test_pings_that_a_worker_did_not_answer_do_not_count_after_the_supervisor_was_frozen() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.answers_pings = watched.store_answers_worker = False
        watched.passes(TIMING.beat + 1)
        watched.clock.advance(2 * MAX_BLOCK)
        watched.look()
        watched.answers_pings = True
        watched.passes(TIMING.ttl + 10)
        assert watched.child.kills == 0
        assert watched.drains == [20.0], "the store answers the supervisor and not the worker"

    watching(test)


def test_a_worker_is_not_pinged_before_it_is_ready() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.handle.is_ready = False
        watched.answers_pings = False
        watched.passes(2 * MAX_BLOCK)
        assert watched.child.kills == 0
        assert watched.sent == [message for message in watched.sent if not isinstance(message, messages.Ping)]

    watching(test)


# cut off


def test_a_worker_is_drained_after_a_ttl_in_which_the_store_answered_only_the_supervisor() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.store_answers_worker = False
        watched.passes(TIMING.ttl)
        assert watched.drains == []
        watched.passes(TIMING.beat + 1)
        assert watched.drains == [GRACE]
        assert watched.log.of("worker.draining") == [
            {"worker": "worker-1", "reason": "its own connection to the store is silent"}
        ]
        watched.passes(GRACE + TIMING.margin)
        assert watched.child.kills == 1
        assert watched.handle.lease_end(KILLED).is_free

    watching(test)


def test_a_worker_that_is_cut_off_is_drained_also_when_the_supervisors_own_contact_breaks_at_times() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.store_answers_worker = False
        watched.store_answers_supervisor = False
        watched.passes(3 * TIMING.ttl)
        assert watched.drains == []
        watched.store_answers_supervisor = True
        for _ in range(5):
            watched.passes(TIMING.ttl / 4)
            watched.contact.lost()
        watched.passes(TIMING.ttl / 4)
        assert watched.drains == [GRACE]

    watching(test)


# lost, asked, overdue


def test_l5_a_worker_is_notified_once_that_it_lost_its_lease_and_killed_if_it_does_not_end() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.handle.lease_lost()
        watched.handle.lease_lost()
        watched.passes(2 * TIMING.margin)
        assert sum(isinstance(message, messages.LeaseLost) for message in watched.sent) == 1
        assert watched.child.kills == 0
        watched.passes(1)
        assert watched.child.kills == 1

    watching(test)


def test_a_worker_that_does_not_end_when_drained_is_killed_after_grace_and_margin_and_no_job_pays() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.handle.drain(GRACE)
        watched.passes(GRACE + TIMING.margin)
        assert watched.child.kills == 0
        watched.passes(1)
        assert watched.child.kills == 1
        assert watched.handle.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL", is_free=True)

    watching(test)


def test_only_a_shorter_grace_is_sent_to_the_worker() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.handle.drain(GRACE)
        watched.handle.drain(GRACE)
        watched.handle.drain(100.0)
        watched.handle.drain(0.0)
        watched.look()
        assert watched.drains == [GRACE, 0.0]

    watching(test)


def test_s9_a_worker_with_unresponsive_code_is_drained_then_killed_and_only_that_code_pays() -> None:
    def test(watched: WatchedWorker) -> None:
        culprit = UUID(int=5)
        watched.handle.handle(messages.CodeUnresponsive((culprit,)))
        watched.passes(1)
        assert watched.drains == [GRACE]
        watched.passes(GRACE + TIMING.margin + 1)
        assert watched.child.kills == 1
        assert watched.handle.lease_end(KILLED) == LeaseEnd(
            RescueReason.CRASHED,
            "SIGKILL",
            is_free=True,
            charged_jobs={culprit: RescueReason.UNRESPONSIVE},
            stacks=watched.child.dump_stacks(),
        )

    watching(test)


def test_a_worker_is_killed_once() -> None:
    def test(watched: WatchedWorker) -> None:
        watched.handle.kill("stopped")
        watched.handle.kill("its event loop is blocked")
        assert watched.child.kills == 1
        assert watched.handle.kill_reason == "stopped"

    watching(test)


# its deadlines


def test_s8_the_deadlines_of_a_worker_and_its_guard_count_from_the_sending_of_the_beat() -> None:
    def test(watched: WatchedWorker) -> None:
        opened = watched.child.deadlines[-1] - (TIMING.ttl - TIMING.margin / 2)
        assert opened == watched.clock.monotonic()
        watched.look()
        (leased,) = [message for message in watched.sent if isinstance(message, messages.LeaseGranted)]
        assert leased == messages.LeaseGranted(LEASE.id, "worker-1", opened + TIMING.ttl - TIMING.margin)
        sent = watched.clock.monotonic()
        watched.clock.advance(4)
        watched.handle.lease_renewed(sent)
        watched.look()
        assert messages.LeaseRenewed(sent + 25.0) in watched.sent
        assert watched.child.deadlines[-1] == sent + 27.5

    watching(test)


# why it ended


@pytest.mark.parametrize(
    ("exit", "is_drained", "seconds", "expected"),
    [
        (KILLED, False, 0, LeaseEnd(RescueReason.CRASHED, "SIGKILL")),
        (Exit(code=1), False, 0, LeaseEnd(RescueReason.CRASHED, "exit code 1")),
        (Exit(code=0), False, 0, LeaseEnd(RescueReason.CRASHED, "exit code 0")),
        (Exit(code=0), True, 0, LeaseEnd(RescueReason.CLOSED, is_free=True)),
        (Exit(code=1), True, 0, LeaseEnd(RescueReason.CRASHED, "exit code 1", is_free=True)),
        (KILLED, False, 25, LeaseEnd(RescueReason.CRASHED, "SIGKILL", is_free=True)),
        (KILLED, False, 24.9, LeaseEnd(RescueReason.CRASHED, "SIGKILL")),
    ],
    ids=[
        "killed",
        "failed",
        "exit code 0 without a drain",
        "drained",
        "drained and failed",
        "past its deadline",
        "within its deadline",
    ],
)
def test_s9_an_end_is_free_after_a_drain_or_past_the_deadline(
    exit: Exit, is_drained: bool, seconds: float, expected: LeaseEnd
) -> None:
    def test(watched: WatchedWorker) -> None:
        if is_drained:
            watched.handle.drain(GRACE)
        watched.clock.advance(seconds)
        assert watched.handle.lease_end(exit) == expected

    watching(test)


def test_a_report_that_a_worker_is_idle_counts_only_until_the_next_ping() -> None:
    def test(watched: WatchedWorker) -> None:
        assert watched.handle.is_idle is None
        watched.handle.handle(messages.Pong(watched.answered, True))
        assert watched.handle.is_idle is True
        watched.handle.ping()
        assert watched.handle.is_idle is None

    watching(test)


async def test_the_end_of_a_worker_at_a_deadline_that_was_renewed_too_late_does_not_count_as_a_crash() -> None:
    watched = WatchedWorker()
    watched.clock.advance(
        TIMING.ttl
    )  # worker, guard and supervisor were frozen; the guard wakes first, then the supervisor beats
    watched.handle.lease_renewed(watched.clock.monotonic())
    assert watched.handle.lease_end(KILLED).is_free
    watched.clock.advance(TIMING.beat)  # the worker lived on, so a later end has another reason
    watched.handle.lease_renewed(watched.clock.monotonic())
    assert not watched.handle.lease_end(KILLED).is_free


async def test_a_worker_that_lost_its_guard_is_drained_and_replaced() -> None:
    watched = WatchedWorker()
    watched.passes(3)
    watched.child.is_guarded = False
    watched.passes(1)
    assert not watched.drains, "the guard may have ended because the worker died, which the supervisor sees soon"
    watched.passes(TIMING.beat)
    assert watched.drains == [GRACE]


async def test_a_worker_whose_guard_ended_before_it_had_a_lease_is_drained_too() -> None:
    watched = WatchedWorker()
    watched.handle, watched.child.is_guarded = (
        WorkerHandle(watched.child, now=watched.clock.monotonic, events=watched.log.events),
        False,
    )
    watched.handle.handle(messages.WorkerHello(SETTINGS, ("t",), ()))
    watched.handle.lease_granted(LEASE, watched.clock.monotonic())
    assert not watched.drains
    watched.passes(TIMING.beat)
    assert watched.drains == [GRACE]
