"""A dashboard in a process, and people whose browsers it keeps up to date."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

LONGEST = 30.0
"""Seconds that an answer may take."""


@contextmanager
def dashboard(url: str, log: Path) -> Iterator[int]:
    """Run ``holdfast dashboard`` for a store, and yield its port."""
    command = [sys.executable, "-m", "holdfast.cli", "dashboard", "--url", url, "--port", "0"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        yield _port(process, log)
    finally:
        process.terminate()
        process.wait(LONGEST)


def get(connection: HTTPConnection, path: str, *, is_renewed: bool = False) -> tuple[float, int]:
    """Read a page; return the seconds it took and its bytes. ``is_renewed``: as the script of an open page does."""
    began = time.perf_counter()
    more = {"x-holdfast-live": "1", "accept-encoding": "gzip"} if is_renewed else {}
    connection.request("GET", path, headers={"accept": "text/html", **more})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}: {body[:500]!r}")
    return time.perf_counter() - began, len(body)


@contextmanager
def watching(port: int, paths: Sequence[str]) -> Iterator[list[float]]:
    """Let one browser watch each path, as the script of the dashboard does; yield the seconds that each new reading took."""
    took, stop = list[float](), threading.Event()
    threads = [threading.Thread(target=_watch, args=(port, path, took, stop)) for path in paths]
    for each in threads:
        each.start()
    try:
        yield took
    finally:
        stop.set()
        for each in threads:
            each.join()


def _watch(port: int, path: str, took: list[float], stop: threading.Event) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=LONGEST)) as pages:
        while not stop.is_set():
            with closing(HTTPConnection("127.0.0.1", port, timeout=LONGEST)) as events:
                events.request("GET", "/api/v1/events", headers={"accept": "text/event-stream"})
                answer, latest = events.getresponse(), 0.0
                while not stop.is_set() and (line := answer.readline()):
                    if line.startswith(b"event:") and time.perf_counter() - latest >= 1.0:
                        latest = time.perf_counter()
                        pages.close()  # the server may have closed it since
                        took.append(get(pages, path, is_renewed=True)[0])


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    until = time.monotonic() + LONGEST
    while process.poll() is None and time.monotonic() < until:
        for word in log.read_text("utf-8").split():
            if word.startswith("http://"):
                return int(word.rstrip("/").rpartition(":")[2])
        time.sleep(0.05)
    raise RuntimeError(f"the dashboard did not start: {log.read_text('utf-8')}")
