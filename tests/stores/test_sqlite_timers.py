"""Timers fire in the order of their times unless they are cancelled; a timer that blocks delays no other."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from holdfast.databases.sqlite.timers import Timers

TIME_LIMIT = 30.0


def test_timers_fire_in_the_order_of_their_times() -> None:
    alarms, rang = Timers(), SimpleQueue[str]()
    alarms.set(0.4, lambda: rang.put("late"))
    alarms.set(0.0, lambda: rang.put("at once"))
    alarms.set(0.1, lambda: rang.put("soon"))
    assert [rang.get(timeout=TIME_LIMIT) for _ in range(3)] == ["at once", "soon", "late"]


def test_a_cancelled_timer_does_not_fire() -> None:
    alarms, rang = Timers(), SimpleQueue[str]()
    off = alarms.set(0.05, lambda: rang.put("called off"))
    alarms.set(0.1, lambda: rang.put("on"))
    off.cancel()
    off.cancel()
    assert rang.get(timeout=TIME_LIMIT) == "on"
    assert rang.empty()


def test_a_timer_that_blocks_delays_no_other() -> None:
    alarms, rang, gate = Timers(), SimpleQueue[str](), threading.Event()

    def wait() -> None:
        gate.wait(TIME_LIMIT)
        rang.put("stuck")

    alarms.set(0.0, wait)
    alarms.set(0.05, lambda: rang.put("on"))
    assert rang.get(timeout=TIME_LIMIT) == "on"
    gate.set()
    assert rang.get(timeout=TIME_LIMIT) == "stuck"


def test_a_timer_that_gets_no_thread_fires_later_and_so_do_all_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    alarms, rang, refused = Timers(), SimpleQueue[str](), list[str]()

    class Scarce(threading.Thread):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

        def start(self) -> None:
            if self.name == "holdfast-alarm" and not refused:
                refused.append(self.name)
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Scarce)
    alarms.set(0.0, lambda: rang.put("refused once"))
    assert rang.get(timeout=TIME_LIMIT) == "refused once"
    alarms.set(0.0, lambda: rang.put("after it"))
    assert rang.get(timeout=TIME_LIMIT) == "after it"
    assert refused


def test_one_thread_waits_for_all_timers() -> None:
    others, alarms = set(threading.enumerate()), Timers()
    for number in range(50):
        alarms.set(100 + number, lambda: None)
    assert [thread.name for thread in set(threading.enumerate()) - others] == ["holdfast-alarms"]


def test_a_forked_child_has_no_timers_of_its_parent_and_may_set_new_ones() -> None:
    alarms, rang = Timers(), SimpleQueue[str]()
    alarms.set(100, lambda: rang.put("parent's"))
    alarms.before_fork()
    alarms.after_fork_in_child()
    alarms.set(0.0, lambda: rang.put("child's"))
    assert rang.get(timeout=TIME_LIMIT) == "child's"
    assert rang.empty()
