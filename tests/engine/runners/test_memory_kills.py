"""Memory kills, as the control groups of both versions report them."""

from pathlib import Path

import pytest

from holdfast._ports.host import Exit
from holdfast._system.memory_kills import RECENT, MemoryKills
from holdfast.testing.clock import FakeClock

V1 = "9:name=systemd:/\n4:cpu,memory:/app/worker\n0::/\n"
V2 = "0::/app/worker\n"


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        (V1, "memory/app/worker/memory.oom_control"),
        (V1, "memory/memory.oom_control"),  # A container shows its own group as the root.
        (V2, "app/worker/memory.events"),
        (V2, "memory.events"),
    ],
)
def test_a_memory_kill_is_recent_for_a_short_time_after_the_count_grew(tmp_path: Path, groups: str, file: str) -> None:
    (tmp_path / "cgroup").write_text(groups)
    count = tmp_path / file
    count.parent.mkdir(parents=True, exist_ok=True)
    count.write_text("low 0\nunder_oom 0\noom_kill 3\noom 9\n")
    clock = FakeClock()
    kills = MemoryKills(tmp_path / "cgroup", tmp_path, now=clock.monotonic)
    assert not kills.had_recent_kill()
    count.write_text("low 0\nunder_oom 0\noom_kill 4\noom 9\n")
    assert kills.had_recent_kill()
    assert kills.had_recent_kill(), "the kernel may have killed two processes"
    clock.advance(RECENT)
    assert not kills.had_recent_kill()


def test_an_earlier_memory_kill_of_another_process_is_not_taken_for_a_later_death(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text(V1)
    count = tmp_path / "memory/app/worker/memory.oom_control"
    count.parent.mkdir(parents=True)
    count.write_text("oom_kill 3\n")
    clock = FakeClock()
    kills = MemoryKills(tmp_path / "cgroup", tmp_path, now=clock.monotonic)
    count.write_text("oom_kill 4\n")
    kills.poll()
    clock.advance(RECENT)
    assert not kills.had_recent_kill()


@pytest.mark.parametrize("groups", [None, "", "rubbish", V1, V2])
def test_without_control_groups_no_memory_kill_is_ever_seen(tmp_path: Path, groups: str | None) -> None:
    if groups is not None:
        (tmp_path / "cgroup").write_text(groups)
    assert not MemoryKills(tmp_path / "cgroup", tmp_path).had_recent_kill()


def test_an_exit_shows_that_memory_ran_out() -> None:
    assert str(Exit(signal="SIGKILL", is_out_of_memory=True)) == "SIGKILL (out of memory)"
    assert (str(Exit(signal="SIGKILL")), str(Exit(3))) == ("SIGKILL", "exit code 3")
