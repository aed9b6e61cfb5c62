"""What a supervisor decides about one worker: drained, killed, who pays."""

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


class Watch:
    """A ward that is ready, its worker answering every ping at once and hearing from the store all the time, unless told."""

    def __init__(self) -> None:
        self.clock, self.log = FakeClock(), Log()
        self.child = MemoryChild(7)
        self.contact = Contact(TIMING, self.clock.monotonic)
        self.ward = WorkerHandle(self.child, now=self.clock.monotonic, events=self.log.events)
        self.ward.handle(messages.WorkerHello(SETTINGS, ("t",), ()))
        self.ward.lease_granted(LEASE, self.clock.monotonic())
        self.ward.handle(messages.Ready())
        self.said: list[messages.Message] = []
        self.answers_pings = self.store_answers_it = self.store_answers_us = True
        self.answered = self.clock.monotonic()

    def passes(self, seconds: float) -> None:
        """The supervisor watches once a second, beats included."""
        for _ in range(round(seconds / SECOND)):
            self.clock.advance(SECOND)
            now = self.clock.monotonic()
            if self.store_answers_us:
                self.contact.answered(now)
                self.ward.lease_renewed(now)
            else:
                self.contact.lost()
            if self.store_answers_it:
                self.answered = now
            self.look()

    def look(self) -> None:
        self.ward.watch(TIMING, self.contact, max_block=MAX_BLOCK, grace=GRACE)
        for message in self.child.far.heard():
            self.said.append(message)
            if isinstance(message, messages.Ping) and self.answers_pings:
                self.ward.handle(messages.Pong(self.answered))

    @property
    def drains(self) -> list[float]:
        return [message.grace for message in self.said if isinstance(message, messages.Drain)]


def watching(test: Callable[[Watch], None]) -> None:
    """Futures want a loop."""

    async def main() -> None:
        test(Watch())

    asyncio.run(main())


def test_a_healthy_worker_is_left_alone_and_asked_once_a_beat() -> None:
    def test(watch: Watch) -> None:
        watch.passes(600)
        assert watch.child.kills == 0
        assert watch.drains == []
        pings = sum(isinstance(message, messages.Ping) for message in watch.said)
        assert pings == 600 / TIMING.beat

    watching(test)


# stopped


def test_a_stopped_worker_is_killed_before_its_deadline_could_be_somebody_elses_business() -> None:
    def test(watch: Watch) -> None:
        watch.child.is_frozen, watch.answers_pings = True, False
        watch.passes(TIMING.ttl - TIMING.margin)
        assert watch.child.kills == 0
        watch.passes(1)
        assert watch.child.kills == 1
        assert watch.log.of("worker.killed") == [{"worker": "worker-1", "reason": "stopped"}]
        assert watch.ward.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL")

    watching(test)


def test_a_worker_stopped_for_a_moment_now_and_then_is_not_killed() -> None:
    def test(watch: Watch) -> None:
        for _ in range(10):
            watch.child.is_frozen = True
            watch.passes(TIMING.ttl - TIMING.margin - 1)
            watch.child.is_frozen = False
            watch.passes(1)
        assert watch.child.kills == 0

    watching(test)


def test_while_the_store_is_silent_a_stopped_worker_may_hold_its_lock_and_gets_one_beat() -> None:
    def test(watch: Watch) -> None:
        watch.child.is_frozen, watch.answers_pings, watch.store_answers_us = True, False, False
        watch.passes(TIMING.beat)
        assert watch.child.kills == 0
        watch.passes(1)
        assert watch.child.kills == 1

    watching(test)


def test_a_beat_that_hangs_is_silence_too() -> None:
    def test(watch: Watch) -> None:
        watch.child.is_frozen, watch.answers_pings = True, False
        for _ in range(10):
            watch.clock.advance(SECOND)
            watch.look()
        assert watch.child.kills == 1

    watching(test)


# deaf


def test_a_blocked_loop_keeps_its_jobs_until_max_block_then_its_stacks_are_kept_and_it_is_killed() -> None:
    def test(watch: Watch) -> None:
        watch.passes(30)
        watch.answers_pings = watch.store_answers_it = False
        watch.passes(MAX_BLOCK)
        assert watch.child.kills == 0
        assert watch.drains == []
        watch.passes(TIMING.beat + 1)
        assert watch.child.kills == 1
        assert watch.ward.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL", stacks="its stacks")

    watching(test)


def test_a_loop_that_was_blocked_for_long_and_runs_again_is_not_taken_for_cut_off() -> None:
    def test(watch: Watch) -> None:
        watch.passes(30)
        watch.answers_pings = watch.store_answers_it = False
        watch.passes(3 * TIMING.ttl)
        watch.ward.handle(messages.Pong(watch.answered))
        watch.answers_pings = watch.store_answers_it = True
        watch.passes(100)
        assert watch.child.kills == 0
        assert watch.drains == []

    watching(test)


def test_l8_an_outage_longer_than_max_block_kills_no_worker_that_answers() -> None:
    def test(watch: Watch) -> None:
        watch.store_answers_us = watch.store_answers_it = False
        watch.passes(2 * MAX_BLOCK)
        watch.store_answers_us = True
        watch.passes(5)
        watch.store_answers_it = True
        watch.passes(TIMING.ttl)
        assert watch.child.kills == 0
        assert watch.drains == []

    watching(test)


def test_after_a_freeze_of_our_own_nothing_it_did_not_answer_counts() -> None:
    def test(watch: Watch) -> None:
        watch.answers_pings = watch.store_answers_it = False
        watch.passes(TIMING.beat + 1)
        watch.clock.advance(2 * MAX_BLOCK)
        watch.look()
        watch.answers_pings = True
        watch.passes(TIMING.ttl + 10)
        assert watch.child.kills == 0
        assert watch.drains == [20.0], "it asks the store and hears nothing, while we do"

    watching(test)


def test_before_it_is_ready_it_is_not_asked() -> None:
    def test(watch: Watch) -> None:
        watch.ward.is_ready = False
        watch.answers_pings = False
        watch.passes(2 * MAX_BLOCK)
        assert watch.child.kills == 0
        assert watch.said == [message for message in watch.said if not isinstance(message, messages.Ping)]

    watching(test)


# cut off


def test_a_worker_the_store_does_not_answer_while_it_answers_us_is_drained_after_a_ttl() -> None:
    def test(watch: Watch) -> None:
        watch.store_answers_it = False
        watch.passes(TIMING.ttl)
        assert watch.drains == []
        watch.passes(TIMING.beat + 1)
        assert watch.drains == [GRACE]
        assert watch.log.of("worker.draining") == [{"worker": "worker-1", "reason": "its own connection to the store is silent"}]
        watch.passes(GRACE + TIMING.margin)
        assert watch.child.kills == 1
        assert watch.ward.lease_end(KILLED).is_free

    watching(test)


def test_so_it_is_when_the_store_fails_us_now_and_then_and_an_outage_of_all_does_not_count() -> None:
    def test(watch: Watch) -> None:
        watch.store_answers_it = False
        watch.store_answers_us = False
        watch.passes(3 * TIMING.ttl)
        assert watch.drains == []
        watch.store_answers_us = True
        for _ in range(5):
            watch.passes(TIMING.ttl / 4)
            watch.contact.lost()
        watch.passes(TIMING.ttl / 4)
        assert watch.drains == [GRACE]

    watching(test)


# lost, asked, overdue


def test_l5_a_worker_that_lost_its_lease_is_told_once_and_killed_if_deaf() -> None:
    def test(watch: Watch) -> None:
        watch.ward.lease_lost()
        watch.ward.lease_lost()
        watch.passes(2 * TIMING.margin)
        assert sum(isinstance(message, messages.LeaseLost) for message in watch.said) == 1
        assert watch.child.kills == 0
        watch.passes(1)
        assert watch.child.kills == 1

    watching(test)


def test_a_worker_that_does_not_end_when_drained_is_killed_after_grace_and_margin_and_nobody_pays() -> None:
    def test(watch: Watch) -> None:
        watch.ward.drain(GRACE)
        watch.passes(GRACE + TIMING.margin)
        assert watch.child.kills == 0
        watch.passes(1)
        assert watch.child.kills == 1
        assert watch.ward.lease_end(KILLED) == LeaseEnd(RescueReason.CRASHED, "SIGKILL", is_free=True)

    watching(test)


def test_only_a_shorter_grace_is_told() -> None:
    def test(watch: Watch) -> None:
        watch.ward.drain(GRACE)
        watch.ward.drain(GRACE)
        watch.ward.drain(100.0)
        watch.ward.drain(0.0)
        watch.look()
        assert watch.drains == [GRACE, 0.0]

    watching(test)


def test_s9_a_worker_with_deaf_code_is_drained_then_killed_and_only_the_deaf_pay() -> None:
    def test(watch: Watch) -> None:
        culprit = UUID(int=5)
        watch.ward.handle(messages.CodeUnresponsive((culprit,)))
        watch.passes(1)
        assert watch.drains == [GRACE]
        watch.passes(GRACE + TIMING.margin + 1)
        assert watch.child.kills == 1
        assert watch.ward.lease_end(KILLED) == LeaseEnd(
            RescueReason.CRASHED,
            "SIGKILL",
            is_free=True,
            charged_jobs={culprit: RescueReason.UNRESPONSIVE},
            stacks=watch.child.dump_stacks(),
        )

    watching(test)


def test_a_worker_is_killed_once() -> None:
    def test(watch: Watch) -> None:
        watch.ward.kill("stopped")
        watch.ward.kill("its event loop is blocked")
        assert watch.child.kills == 1
        assert watch.ward.kill_reason == "stopped"

    watching(test)


# its deadlines


def test_s8_the_worker_and_its_guard_are_told_deadlines_that_count_from_the_sending_of_the_beat() -> None:
    def test(watch: Watch) -> None:
        opened = watch.child.deadlines[-1] - (TIMING.ttl - TIMING.margin / 2)
        assert opened == watch.clock.monotonic()
        watch.look()
        (leased,) = [message for message in watch.said if isinstance(message, messages.LeaseGranted)]
        assert leased == messages.LeaseGranted(LEASE.id, "worker-1", opened + TIMING.ttl - TIMING.margin)
        sent = watch.clock.monotonic()
        watch.clock.advance(4)
        watch.ward.lease_renewed(sent)
        watch.look()
        assert messages.LeaseRenewed(sent + 25.0) in watch.said
        assert watch.child.deadlines[-1] == sent + 27.5

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
    ids=["killed", "failed", "gone without a word", "drained", "drained and failed", "past its deadline", "within its deadline"],
)
def test_s9_an_end_is_free_when_it_explains_itself(exit: Exit, is_drained: bool, seconds: float, expected: LeaseEnd) -> None:
    def test(watch: Watch) -> None:
        if is_drained:
            watch.ward.drain(GRACE)
        watch.clock.advance(seconds)
        assert watch.ward.lease_end(exit) == expected

    watching(test)


def test_what_it_said_of_its_idleness_counts_only_until_it_is_asked_again() -> None:
    def test(watch: Watch) -> None:
        assert watch.ward.is_idle is None
        watch.ward.handle(messages.Pong(watch.answered, True))
        assert watch.ward.is_idle is True
        watch.ward.ping()
        assert watch.ward.is_idle is None

    watching(test)


async def test_a_worker_ended_at_a_deadline_that_was_renewed_too_late_is_no_crash() -> None:
    watch = Watch()
    watch.clock.advance(TIMING.ttl)  # frozen, all of it; its guard wakes first, then we beat
    watch.ward.lease_renewed(watch.clock.monotonic())
    assert watch.ward.lease_end(KILLED).is_free
    watch.clock.advance(TIMING.beat)  # it lived on: what ends it now is another matter
    watch.ward.lease_renewed(watch.clock.monotonic())
    assert not watch.ward.lease_end(KILLED).is_free


async def test_a_worker_that_lost_its_guard_is_drained_and_replaced() -> None:
    watch = Watch()
    watch.passes(3)
    watch.child.is_guarded = False
    watch.passes(1)
    assert not watch.drains, "its death may be the reason; that is seen within moments"
    watch.passes(TIMING.beat)
    assert watch.drains == [GRACE]


async def test_a_worker_whose_guard_went_before_it_had_a_lease_is_drained_too() -> None:
    watch = Watch()
    watch.ward, watch.child.is_guarded = WorkerHandle(watch.child, now=watch.clock.monotonic, events=watch.log.events), False
    watch.ward.handle(messages.WorkerHello(SETTINGS, ("t",), ()))
    watch.ward.lease_granted(LEASE, watch.clock.monotonic())
    assert not watch.drains
    watch.passes(TIMING.beat)
    assert watch.drains == [GRACE]
