"""Timers fire in the order of their times unless they are cancelled; a timer that blocks delays no other."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from holdfast.databases.sqlite.timers import Timers

TIME_LIMIT = 30.0


def test_timers_fire_in_the_order_of_their_times() -> None:
    timers, fired = Timers(), SimpleQueue[str]()
    timers.set(0.4, lambda: fired.put("late"))
    timers.set(0.0, lambda: fired.put("at once"))
    timers.set(0.1, lambda: fired.put("soon"))
    assert [fired.get(timeout=TIME_LIMIT) for _ in range(3)] == ["at once", "soon", "late"]


def test_a_cancelled_timer_does_not_fire() -> None:
    timers, fired = Timers(), SimpleQueue[str]()
    off = timers.set(0.05, lambda: fired.put("called off"))
    timers.set(0.1, lambda: fired.put("on"))
    off.cancel()
    off.cancel()
    assert fired.get(timeout=TIME_LIMIT) == "on"
    assert fired.empty()


def test_a_timer_that_blocks_delays_no_other() -> None:
    timers, fired, gate = Timers(), SimpleQueue[str](), threading.Event()

    def wait() -> None:
        gate.wait(TIME_LIMIT)
        fired.put("stuck")

    timers.set(0.0, wait)
    timers.set(0.05, lambda: fired.put("on"))
    assert fired.get(timeout=TIME_LIMIT) == "on"
    gate.set()
    assert fired.get(timeout=TIME_LIMIT) == "stuck"


def test_a_timer_that_gets_no_thread_fires_later_and_so_do_all_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, fired, refused = Timers(), SimpleQueue[str](), list[str]()

    class Scarce(threading.Thread):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

        def start(self) -> None:
            if self.name == "holdfast-alarm" and not refused:
                refused.append(self.name)
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Scarce)
    timers.set(0.0, lambda: fired.put("refused once"))
    assert fired.get(timeout=TIME_LIMIT) == "refused once"
    timers.set(0.0, lambda: fired.put("after it"))
    assert fired.get(timeout=TIME_LIMIT) == "after it"
    assert refused


def test_one_thread_waits_for_all_timers() -> None:
    others, timers = set(threading.enumerate()), Timers()
    for number in range(50):
        timers.set(100 + number, lambda: None)
    assert [thread.name for thread in set(threading.enumerate()) - others] == ["holdfast-alarms"]


def test_a_forked_child_has_no_timers_of_its_parent_and_may_set_new_ones() -> None:
    timers, fired = Timers(), SimpleQueue[str]()
    timers.set(100, lambda: fired.put("parent's"))
    timers.before_fork()
    timers.after_fork_in_child()
    timers.set(0.0, lambda: fired.put("child's"))
    assert fired.get(timeout=TIME_LIMIT) == "child's"
    assert fired.empty()
