"""A program on a machine that lacks what Windows lacks: names of signals, processes, sockets and clocks are taken away first.

It is not Windows: paths, files and event loops are those of Linux. It shows that no code on the way needs the names.
"""

import _socket
import asyncio
import faulthandler
import importlib.util
import os
import select
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import click.testing

LOADED = (faulthandler, importlib.util, shutil, sqlite3, ssl, subprocess, tempfile, threading)
ABSENT = {
    signal: "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGSTOP SIGCONT SIGCHLD SIGALRM pthread_sigmask valid_signals SIG_BLOCK",
    os: "fork killpg getsid setsid register_at_fork pidfd_open waitid memfd_create WNOHANG getuid geteuid uname sched_getaffinity "
    "pread pwrite P_PID fchmod O_NOFOLLOW O_DIRECTORY getpriority nice",
    socket: "AF_UNIX",
    select: "poll",
    time: "clock_gettime CLOCK_BOOTTIME CLOCK_MONOTONIC",
    faulthandler: "register",
}
SHOP = """
from holdfast import App
app = App("sqlite:///jobs.db")
@app.task
def double(number: int) -> int:
    return 2 * number
"""


def take_away() -> None:
    family, kind = socket.AF_UNIX, socket.SOCK_STREAM

    def pair(*_: object) -> tuple[socket.socket, ...]:  # on Windows the standard library makes one of TCP
        return tuple(socket.socket(family, kind, 0, end.detach()) for end in _socket.socketpair(family, kind, 0))

    socket.socketpair = pair  # type: ignore[assignment]
    for module, names in ABSENT.items():
        for name in names.split():
            delattr(module, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios"):
        sys.modules[name] = None  # type: ignore[assignment] # an import of it fails
    sys.platform = "win32"


async def embedded(app: object, task: object) -> object:
    async with app.worker():  # type: ignore[attr-defined]
        return await (await task.aenqueue(number=3)).aresult(timeout=10)  # type: ignore[attr-defined]


def main() -> None:
    take_away()
    with open("shop.py", "w") as file:
        file.write(SHOP)
    sys.path.insert(0, os.getcwd())
    import shop  # type: ignore[import-not-found]

    shop.double.enqueue(number=1)
    print("run_due", shop.app.run_due())
    print("embedded", asyncio.run(embedded(shop.app, shop.double)))
    from holdfast.cli.commands import root

    for words in (("jobs", "list"), ("check",), ("backup", "copy.db"), ("worker", "shop:app"), ("demo",)):
        found = click.testing.CliRunner().invoke(root, words, env={"HOLDFAST_APP": "shop:app"})
        is_clean = found.exception is None or isinstance(found.exception, SystemExit)
        print(words[0], found.exit_code if is_clean else repr(found.exception), *found.output.split("\n")[:1])
        if words[0] == "check":
            print("system" in found.output and "WSL 2" in found.output)


main()
