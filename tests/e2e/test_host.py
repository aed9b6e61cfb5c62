"""Real worker processes: sessions, pipes, death."""

import contextlib
import errno
import gc
import json
import os
import resource
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from holdfast._core.identity import ProcessIdentity, is_provably_dead
from holdfast._ports.host import Exit
from holdfast._system import host as system_host
from holdfast._system.host import SystemHost, identify
from tests.e2e.scripted_workers import ask, end, guard_of, is_alive, living, run, scripted_worker
from tests.e2e.waiting import eventually, until

SLEEP = "import time; time.sleep(600)"


def start(script: str, **options: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]


def test_a_worker_leads_its_own_session_without_a_terminal_and_knows_itself() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            pid, start_time, session, limits, is_marked = await ask(child, "process")
            assert (pid, start_time) == (child.process.pid, child.process.start)
            assert session == pid != os.getsid(0)
            assert limits == []
            assert is_marked == "1"
            assert await ask(child, "stdin") == "/dev/null"
            assert child.process.start > 0
            assert SystemHost().process().shares_processes_with(child.process)
            ours = SystemHost().process()
            assert (ours.boot, ours.clock) == (child.process.boot, child.process.clock)

    run(scenario)


def test_the_memory_of_a_worker_is_seen_while_it_lives() -> None:
    async def scenario() -> None:
        host = SystemHost()
        async with scripted_worker() as child:
            await ask(child, "process")
            memory = host.memory(child.process)
            assert memory is not None
            assert 2**20 < memory < 2**30
            child.kill()
            await child.wait()
            assert host.memory(child.process) is None

    run(scenario)


def test_nothing_of_the_pipes_reaches_a_grandchild() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            files = await ask(child, "fds")
            # The list contains fds 0-2, too: the worker's stdin, the child's own pipe, and the test's stderr.
            assert files[0] == "/dev/null"
            assert len(files) == 3, files
            assert not [file for file in files if "socket" in file or "holdfast" in file]

    run(scenario)


def test_messages_arrive_whole_and_in_order() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            text = "€" * 2_000_000
            assert await ask(child, "echo", text) == text
            child.channel.send(json.dumps(["flood", 20_000]).encode())
            for number in range(200):
                message = await child.channel.receive()
                assert message is not None
                assert json.loads(message)[0] == number

    run(scenario)


def test_an_exit_code_and_the_end_of_the_pipe_are_seen() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            child.channel.send(b'["exit", 3]')
            assert await child.wait() == Exit(code=3)
            assert await child.channel.receive() is None
            assert await child.channel.receive() is None
            child.set_deadline(1.0)
            child.kill()
            assert child.dump_stacks() == ""
            assert not child.is_stopped()

    run(scenario)


@pytest.mark.parametrize("how", ["plain", "in_own_group", "forked"])
def test_a_killed_session_leaves_nothing_behind(how: str) -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            grandchild = await ask(child, "start", how)
            assert is_alive(grandchild)
            assert is_alive(guard_of(child.process.pid))
            child.kill()
            assert await child.wait() == Exit(signal="SIGKILL")
            assert not is_alive(grandchild)
            assert living(child.process.pid) == []

    run(scenario)


def test_processes_that_a_worker_started_die_with_it() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            grandchildren = [await ask(child, "start", how) for how in ("plain", "in_own_group", "forked")]
            os.kill(child.process.pid, signal.SIGSEGV)
            assert await child.wait() == Exit(signal="SIGSEGV")
            assert not any(is_alive(pid) for pid in grandchildren)

    run(scenario)


def test_a_process_that_keeps_forking_does_not_escape() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "start", "breeder")
            await eventually(lambda: len(living(child.process.pid)) > 20, within=10)
            child.kill()
            await child.wait()
            assert living(child.process.pid) == []

    run(scenario)


def test_death_is_learnt_although_a_child_keeps_the_pipe_open() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            keeper = await ask(child, "start", "in_own_session_forked")
            try:
                child.kill()
                assert await child.wait() == Exit(signal="SIGKILL")
                assert is_alive(keeper)  # it has left the session of the worker
                assert await child.channel.receive() is None
            finally:
                end(keeper)

    run(scenario)


def test_a_dead_worker_is_reaped_even_if_no_caller_waits() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            assert is_alive(child.process.pid)
            os.kill(child.process.pid, signal.SIGKILL)
            await eventually(lambda: not os.path.exists(f"/proc/{child.process.pid}"), within=5)

    run(scenario)


def test_a_stopped_worker_is_seen_and_can_be_killed() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "echo")
            assert not child.is_stopped()
            child.channel.send(b'["stop", null]')
            await eventually(child.is_stopped, within=5)
            child.kill()
            assert await child.wait() == Exit(signal="SIGKILL")

    run(scenario)


def test_a_worker_whose_gil_is_held_still_dumps_its_stacks() -> None:
    async def scenario() -> None:
        async with scripted_worker() as child:
            await ask(child, "echo")
            assert "asyncio" in child.dump_stacks()
            await ask(child, "hang")
            await eventually(lambda: "hold_the_gil" in child.dump_stacks(), within=5)

    run(scenario)


def test_a_request_for_stacks_does_not_kill_a_worker_that_is_still_starting() -> None:
    async def scenario() -> None:
        host = SystemHost(command=(sys.executable, "-c", SLEEP))
        child = await host.spawn(())
        assert child.dump_stacks() == ""
        assert is_alive(child.process.pid)
        child.kill()
        assert await child.wait() == Exit(signal="SIGKILL")
        child.channel.close()

    run(scenario)


def test_a_command_that_does_not_exist_is_an_error_and_leaves_no_descriptor_open() -> None:
    async def scenario() -> None:
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(FileNotFoundError):
            await SystemHost(command=("/nowhere/python",)).spawn(())
        assert len(os.listdir("/proc/self/fd")) == before

    run(scenario)


def test_spawning_and_ending_leaves_no_descriptor_open() -> None:
    async def scenario() -> None:
        before = len(os.listdir("/proc/self/fd"))
        async with scripted_worker() as child:
            await ask(child, "echo")
        assert len(os.listdir("/proc/self/fd")) == before

    run(scenario)


def test_a_zombie_is_provably_dead_and_a_living_process_is_not() -> None:
    host, process = SystemHost(), start(SLEEP)
    theirs = identify(process.pid)
    assert host.is_running(theirs)
    process.kill()
    until(lambda: not is_alive(process.pid), within=5)
    assert os.path.exists(f"/proc/{process.pid}")
    assert is_provably_dead(theirs, host.process(), is_running=host.is_running(theirs))
    process.communicate()
    assert not host.is_running(theirs)


def test_another_process_with_the_same_pid_is_not_the_same() -> None:
    host, ours = SystemHost(), SystemHost().process()
    assert host.is_running(ours)
    earlier = type(ours)(ours.host, ours.pid, ours.start - 1, ours.boot, ours.pid_namespace, ours.clock)
    assert not host.is_running(earlier)


def test_start_times_of_another_time_namespace_are_not_compared() -> None:
    host, ours = SystemHost(), SystemHost().process()
    shifted = type(ours)(ours.host, ours.pid, ours.start + 500, ours.boot, ours.pid_namespace, "time:[1]")
    assert host.is_running(shifted)


LEAVER = f"""
import os, subprocess, sys
left = subprocess.Popen([sys.executable, "-I", "-S", "-c", {SLEEP!r}], process_group=0, stdout=subprocess.DEVNULL)
print(left.pid, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("is_marked", [True, False])
def test_leftovers_of_a_dead_worker_are_killed_if_they_are_certainly_its_own(is_marked: bool) -> None:
    process = start(LEAVER, start_new_session=True, env={"HOLDFAST_WORKER": "1"} if is_marked else {})
    theirs = identify(process.pid)
    left = int(process.communicate()[0])
    try:
        # Without the variable it may be a daemon that got the number after the worker.
        assert SystemHost().kill_orphans(theirs) == int(is_marked)
        assert is_alive(left) is not is_marked
    finally:
        end(left)


def test_leftovers_of_a_zombie_are_killed() -> None:
    process = start(LEAVER, start_new_session=True, env={"HOLDFAST_WORKER": "1"})
    theirs = identify(process.pid)
    assert process.stdout is not None
    left = int(process.stdout.read())
    until(lambda: not is_alive(process.pid), within=5)
    assert SystemHost().kill_orphans(theirs) == 1
    process.communicate()
    until(lambda: not is_alive(left), within=5)


def test_a_session_whose_number_was_given_to_another_process_is_left_alone() -> None:
    process = start(SLEEP, start_new_session=True, env={"HOLDFAST_WORKER": "1"})
    now = identify(process.pid)
    try:
        for start_time in (now.start, now.start - 1, 0):
            theirs = type(now)(now.host, now.pid, start_time, now.boot, now.pid_namespace, now.clock)
            assert SystemHost().kill_orphans(theirs) == 0
        other_boot = type(now)(now.host, now.pid, now.start - 1, "another", now.pid_namespace, now.clock)
        assert SystemHost().kill_orphans(other_boot) == 0
        assert is_alive(process.pid)
    finally:
        process.kill()
        process.communicate()


def test_workers_are_watched_without_pidfd_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    async def scenario() -> None:
        async with scripted_worker() as child:
            grandchild = await ask(child, "start", "in_own_group")
            os.kill(child.process.pid, signal.SIGKILL)
            assert await child.wait() == Exit(signal="SIGKILL")
            assert not is_alive(grandchild)

    run(scenario)


def test_an_ignored_sigchld_inherited_from_a_launcher_loses_no_exit() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:

        async def scenario() -> None:
            async with scripted_worker() as child:
                child.channel.send(b'["exit", 4]')
                assert await child.wait() == Exit(code=4)

        run(scenario)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_process_one_of_a_container_reaps_what_its_workers_leave() -> None:
    script = """
import asyncio, ctypes, os
from tests.e2e.scripted_workers import ask, scripted_worker
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
async def main():
    async with scripted_worker() as child:
        await ask(child, "start", "forked")
asyncio.run(main())
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nothing left")
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=30)
    assert done.stdout == b"nothing left\n"


@pytest.mark.parametrize("free", [0, 3, 6, *(pytest.param(each, marks=pytest.mark.prove) for each in (1, 2, 4, 5))])
def test_a_spawn_that_fails_for_want_of_descriptors_leaves_none_open(free: int) -> None:
    """Otherwise each try would leave fewer descriptors for the next."""

    async def scenario() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        gc.collect()  # close the leftovers of earlier tests now, not between the two counts
        before = sorted(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(max(before, key=int)) + 20, hard))
        filler = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    filler.append(os.dup(0))
            for _ in range(free):
                os.close(filler.pop())
            with pytest.raises(OSError, match="Too many open files"):
                await SystemHost().spawn([])
        finally:
            for fd in filler:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.collect()
        assert sorted(os.listdir("/proc/self/fd")) == before

    run(scenario)


def unreadable(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Make the entries of processes in /proc unreadable from now on."""

    def opened(path: str, *how: Any, **more: Any) -> Any:
        if path.endswith("/stat"):
            raise error
        return open(path, *how, **more)

    monkeypatch.setattr(system_host, "open", opened, raising=False)


HIDDEN = """
import os, sys
from holdfast._core.identity import ProcessIdentity, is_provably_dead
from holdfast._system.host import SystemHost
import msgspec
theirs, host = msgspec.json.decode(sys.argv[1], type=ProcessIdentity), SystemHost()
if sys.argv[2] == "another user":
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
seen = os.path.exists(f"/proc/{theirs.pid}/stat")
ours = host.process()
print(seen, ours.start > 0, host.is_running(theirs), is_provably_dead(theirs, ours, is_running=host.is_running(theirs)))
print(host.kill_orphans(theirs))
"""


def judged_from(view: str, theirs: ProcessIdentity) -> list[str]:
    """Return what a process finds out about another one that lives, from a separate mount or pid namespace."""
    words = [sys.executable, "-c", HIDDEN, msgspec.json.encode(theirs).decode(), view]
    if view == "another user":
        shell = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    else:
        shell = ["unshare", "--pid", "--fork", *(["--mount-proc"] if view == "its own /proc" else [])]
    answers = subprocess.run([*shell, *words], capture_output=True, text=True, check=False)
    return answers.stdout.split() if answers.returncode == 0 else []


@pytest.mark.parametrize("view", ["another user", "its own /proc", "the /proc of others"])
def test_s5_a_living_process_that_proc_hides_is_not_provably_dead(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(SLEEP, start_new_session=True, env={"HOLDFAST_WORKER": "1"})
    theirs = identify(process.pid)
    try:
        answers = judged_from(view, theirs)
        if answers:
            assert answers[3:] == ["False", "0"], answers
            assert answers[0] == "False" or view == "the /proc of others", "the entry is hidden"
        unreadable(monkeypatch, FileNotFoundError())
        assert SystemHost().is_running(theirs)
        assert is_alive(process.pid)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EIO])
def test_s5_an_entry_that_cannot_be_read_proves_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    process = start("pass")
    theirs = identify(process.pid)
    process.communicate()
    assert not SystemHost().is_running(theirs)
    unreadable(monkeypatch, OSError(number, "no"))
    assert SystemHost().is_running(theirs)
    assert SystemHost().kill_orphans(theirs) == 0
