"""A full disk: acknowledged jobs stay, computed results are kept, and no process ends."""

import time
from pathlib import Path

import pytest

from holdfast import StoreUnavailable
from holdfast._engine.client.client import Client
from tests.e2e.disks import Disk, small_disk
from tests.e2e.fleet import START, Fleet, fleet
from tests.e2e.waiting import until


def put_jobs_on(disk: Disk, ships: Fleet) -> None:
    (ships.folder / "jobs.db").symlink_to(disk.folder / "jobs.db")
    ships.app.migrate()


def keep_full(disk: Disk, seconds: float) -> None:
    """Fill any space as soon as it becomes free, for instance by a shorter log."""
    by = time.monotonic() + seconds

    def is_over() -> bool:
        disk.fill()
        return time.monotonic() > by

    until(is_over, within=seconds + START)


def test_s6_an_enqueue_on_a_full_disk_raises_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "give_up", 0.2)  # instead of half a minute
    with small_disk(tmp_path, list) as disk, fleet(tmp_path) as ships:

        @ships.app.task
        def note(text: str) -> None: ...

        put_jobs_on(disk, ships)
        acknowledged = 0

        def until_it_is_full() -> None:
            nonlocal acknowledged
            while True:
                disk.fill()
                note.enqueue_many([{"text": "x" * 1000}] * 50)
                acknowledged += 50

        with pytest.raises(StoreUnavailable, match=r"jobs\.db: (database or disk is full|disk I/O error)"):
            until_it_is_full()
        assert ships.app.jobs.counts().get("available", 0) == acknowledged
        disk.free()
        note.enqueue_many([{"text": "x"}] * 50)
        assert ships.app.jobs.counts()["available"] == acknowledged + 50
        assert {finding.level for finding in ships.app.check() if finding.name in ("file", "journal")} == {"ok"}


@pytest.mark.prove
@pytest.mark.parametrize(("ttl", "seconds"), [("6s", 1.5), ("3s", 3.5)], ids=["within the ttl", "beyond the ttl"])
def test_l8_jobs_on_a_full_disk_keep_their_results_and_their_workers_live(tmp_path: Path, ttl: str, seconds: float) -> None:
    with small_disk(tmp_path, lambda: ships.crews[0].processes()) as disk, fleet(tmp_path, ttl=ttl, recovery="0.3s") as ships:
        put_jobs_on(disk, ships)
        crew = ships.crew()
        workers = crew.workers()
        ending = [ships.enqueue("wait", gate="ending") for _ in range(3)]
        running = ships.enqueue("wait", gate="running")
        for job in (*ending, running):
            ships.entry(job, "start")
        disk.fill()
        ships.open("ending")
        for job in ending:
            ships.entry(job, "end")
        keep_full(disk, seconds)
        assert "disk is full" in crew.log_text() or "I/O error" in crew.log_text()
        disk.free()
        ships.open("running")
        for job in ending:
            view = ships.until_state(job, "completed", within=START)
            assert (view.attempt, view.crashes, view.result) == (1, 0, ships.entry(job, "start")["token"])
        view = ships.until_state(running, "completed", within=START)
        assert (view.crashes, view.failures) == (0, 0)
        assert crew.workers() == workers
        assert " taken from " not in crew.log_text()
