"""A search for leftovers of torture: each process that it starts inherits an environment variable, or works in its folder."""

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

from tests.e2e.waiting import PAUSE

MARK = "HOLDFAST_TORTURE"
GOING = 30.0
"""Seconds in which the last process ends."""


def mark() -> str:
    """Give a variable to all that this process starts from now on; return its value."""
    name = uuid.uuid4().hex
    os.environ[MARK] = name
    return name


def left(name: str, folder: Path) -> list[str]:
    """List the processes with that variable, or in that folder, after some time. (A test's server writes over its environment.)"""
    by = time.monotonic() + GOING
    while (found := _found(name, folder)) and time.monotonic() < by:
        time.sleep(PAUSE)
    return found


def _found(name: str, folder: Path) -> list[str]:
    mark, found = f"{MARK}={name}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_marked = mark in (process / "environ").read_bytes().split(b"\0")
            is_there = (process / "cwd").readlink().is_relative_to(folder)
            if (is_marked or is_there) and int(process.name) != os.getpid():
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{process.name}: {command.strip()}")
    return found
