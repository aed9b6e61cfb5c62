"""Processes that stop and wake: a zombie must not write, and must learn that it is one."""

import os
import signal
import time
from pathlib import Path

from proof.checker import history_sqlite
from tests.e2e.fleet import START, fleet, stop, thaw
from tests.e2e.scripted_workers import guard_of, is_alive
from tests.e2e.server_site import ON_BOTH
from tests.e2e.waiting import STALL, until

TTL, BEAT, MARGIN = 3.0, 0.6, 0.5


def test_a_frozen_worker_with_a_running_supervisor_is_killed_within_the_ttl(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s") as ships:
        ships.crew()
        job = ships.enqueue("wait", gate="gate")
        worker = ships.entry(job, "start")["pid"]
        os.kill(worker, signal.SIGSTOP)
        until(lambda: not is_alive(worker), within=TTL)
        again = ships.entry(job, "start", number=2, within=STALL)  # once a new worker has started
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.result) == (2, again["token"])


def test_a_freeze_shorter_than_the_deadline_costs_nothing(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.3s") as ships:
        crew = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        ships.entry(job, "start")
        ships.crew()
        frozen, began = crew.freeze_outside_of_writes(), time.monotonic()
        until(lambda: time.monotonic() - began > TTL - MARGIN - BEAT - 0.6, within=TTL)
        thaw(frozen)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.attempt, view.crashes) == (1, 0)
        assert len(ships.journal.read(job, "start")) == 1


def test_a_zombie_that_wakes_after_its_job_was_taken_stops_within_a_beat(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.5s") as ships:
        zombies = ships.crew()
        job = ships.enqueue("wait", gate="gate")
        first = ships.entry(job, "start")
        frozen = zombies.freeze_outside_of_writes()
        ships.crew()
        second = ships.entry(job, "start", number=2)
        thaw(frozen)
        until(lambda: not is_alive(first["pid"]) or ships.journal.read(job, "cut"), within=BEAT + STALL)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert view.result == second["token"] != first["token"]
        assert len(ships.journal.read(job, "start")) == 2
        after = ships.enqueue("count", number=1)
        ships.until_state(after, "completed", within=START)
        until(lambda: zombies.workers() and first["pid"] not in zombies.workers(), within=START)


@ON_BOTH
def test_a_zombie_that_no_guard_ends_is_refused_everything_it_writes(tmp_path: Path, store_url: str) -> None:
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.5s") as ships:
        zombies = ships.crew()
        job = ships.enqueue("insist", gate="gate")
        first = ships.entry(job, "start")
        guardian = guard_of(first["pid"])
        frozen = zombies.freeze_outside_of_writes()
        ships.crew()
        second = ships.entry(job, "start", number=2)
        woken = time.monotonic()
        thaw(pid for pid in frozen if pid != guardian)
        refused = ships.entry(job, "refused")
        assert (refused["pid"], refused["token"]) == (first["pid"], first["token"])
        assert refused["error"] in ("JobLost", "CancelledError")  # the store refused it, or its own clock stopped it before
        assert refused["time"] - woken <= BEAT + STALL
        until(lambda: not is_alive(first["pid"]), within=START)
        # After the first entry of the second attempt, no other attempt writes.
        until(lambda: ships.view(job).checkpoint == {"by": second["token"]}, within=START)
        until(lambda: ships.view(job).message == second["token"], within=START)
        ships.open("gate")
        view = ships.until_state(job, "completed", within=START)
        assert (view.result, view.checkpoint, view.message) == (second["token"], {"by": second["token"]}, second["token"])


def test_a_result_made_while_cut_off_is_kept_as_a_late_result(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s", recovery="0.5s") as ships:
        zombies = ships.crew()
        job = ships.enqueue("wait", gate="first")
        first = ships.entry(job, "start")
        with history_sqlite.opened(tmp_path / "jobs.db") as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            ships.open("first")
            ships.entry(job, "end")
            frozen = zombies.freeze()
            (tmp_path / "first").unlink()
        ships.crew()
        second = ships.entry(job, "start", number=2)
        thaw(frozen)

        def late() -> object:
            return [each.late_result for each in ships.view(job).attempts if each.late_result is not None]

        assert until(late, within=START) == [first["token"]]
        assert ships.view(job).state == "running"
        ships.open("first")
        assert ships.until_state(job, "completed", within=START).result == second["token"]


def test_a_worker_frozen_inside_a_write_does_not_block_the_others_for_long(tmp_path: Path) -> None:
    with fleet(tmp_path, ttl="3s") as ships:
        ships.crew()
        writer = ships.enqueue("insist", gate="gate")
        worker = ships.entry(writer, "start")["pid"]
        ships.crew()

        def is_inside() -> bool:
            thaw([worker])
            time.sleep(0.002)
            stop([worker])
            return ships.is_locked()

        until(is_inside, within=START)
        frozen = time.monotonic()
        until(lambda: not ships.is_locked(), within=TTL)
        print(f"writable again after {time.monotonic() - frozen:.2f} s")
        ships.entry(writer, "start", number=2)
        ships.open("gate")
        assert ships.until_state(writer, "completed", within=START).crashes == 1
