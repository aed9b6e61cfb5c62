"""A worker process that does what its test asks over the pipe, in place of jobs."""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time

from holdfast._system.host import SystemSupervisorLink

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def start_plain() -> int:
    return subprocess.Popen(SLEEP).pid


def start_in_own_group() -> int:
    return subprocess.Popen(SLEEP, process_group=0).pid


def start_forked() -> int:
    """Fork a copy of this process, with its pipe, whose parent is process 1."""
    read, write = os.pipe()
    if os.fork() == 0:
        child = os.fork()
        if child:
            os.write(write, str(child).encode())
            os._exit(0)
        time.sleep(600)
    os.wait()
    return int(os.read(read, 20))


def start_breeder() -> int:
    """Start a process in a separate group that keeps making others."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        for _ in range(3000):
            if os.fork() == 0:
                time.sleep(600)
            time.sleep(0.001)
    return pid


def start_in_own_session_forked() -> int:
    """Fork a copy of this process, with its pipe, into another session."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.write(write, b"gone")
        time.sleep(600)
    os.read(read, 4)
    return pid


LIST_FILES = """
import os, json
links = [f"/proc/self/fd/{fd}" for fd in range(64)]
print(json.dumps([os.readlink(link) for link in links if os.path.lexists(link)]))
"""


def open_files_of_child() -> list[str]:
    done = subprocess.run([sys.executable, "-I", "-c", LIST_FILES], close_fds=False, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def hold_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 40 + "b")


def obey(link: SystemSupervisorLink, order: str, value: object) -> object:
    match order:
        case "flag":
            link.set_code_running(bool(value))
        case "start":
            return globals()[f"start_{value}"]()
        case "echo":
            return value
        case "flood":
            for number in range(200):
                link.channel.send(json.dumps([number, "x" * int(str(value))]).encode())
        case "stdin":
            return os.readlink("/proc/self/fd/0")
        case "process":
            return [link.process().pid, link.process().start, os.getsid(0), link.limits, os.environ.get("HOLDFAST_WORKER")]
        case "fds":
            return open_files_of_child()
        case "exit":
            sys.exit(int(str(value)))
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
    return None


async def main(link: SystemSupervisorLink) -> None:
    while (data := await link.channel.receive()) is not None:
        order, value = json.loads(data)
        if order == "hang":  # answer first: a hanging process cannot
            link.channel.send(b"null")
            hold_the_gil()
        elif order == "linger":
            link.channel.send(b"null")
            await asyncio.sleep(600)
        else:
            link.channel.send(json.dumps(obey(link, order, value)).encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("--channel", "--guard", "--stacks"):
        parser.add_argument(name, type=int)
    parser.add_argument("--clock", default="monotonic")
    given = parser.parse_args()
    its_cell = SystemSupervisorLink.adopt(given.channel, given.guard, given.stacks)
    its_cell.set_lease_clock(runs_through_suspend=given.clock == "boottime")
    asyncio.run(main(its_cell))
