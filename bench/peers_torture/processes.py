"""All processes of one worker, in every arrangement of its library: found by the environment they inherit, and by descent."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.peers_torture import journal


def of_worker(file: Path, worker: str | None = None) -> set[int]:
    """Find the processes of one worker of a trial, or of all its workers."""
    marks = {f"{journal.FILE}={file}".encode()}
    if worker is not None:
        marks.add(f"{journal.WORKER}={worker}".encode())
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").glob("[0-9]*")}
    found = {pid for pid in parents if marks <= _environment(pid) and pid != os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def freeze(file: Path, worker: str | None = None) -> set[int]:
    """Stop them all, those also that were born in the meantime."""
    frozen: set[int] = set()
    while more := of_worker(file, worker) - frozen:
        _send(signal.SIGSTOP, more)
        frozen |= more
    return frozen


def thaw(pids: Iterable[int]) -> None:
    """Let them go on."""
    _send(signal.SIGCONT, pids)


def kill(file: Path, worker: str | None = None) -> None:
    """Kill all with ``kill -9`` at the same instant: frozen first, none of them sees another die."""
    _send(signal.SIGKILL, freeze(file, worker))


def is_alive(pid: int) -> bool:
    """Return whether it can still run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def start(arguments: list[str], environment: dict[str, str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process in a separate session, its output in the log."""
    with log.open("ab") as words:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def _environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()  # it has ended, or is not ours


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0
