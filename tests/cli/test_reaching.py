"""A person at a terminal learns at once that the server of a store cannot be reached; a program reads nothing of it."""

import io
import socket
import sys
import threading

import pytest

from holdfast._core.addresses import addresses_of
from holdfast._processes.reaching import announcing_outage


class Terminal(io.StringIO):
    """A stderr that notes when a whole line was written."""

    def __init__(self, *, is_one: bool) -> None:
        super().__init__()
        self.is_one, self.was_flushed = is_one, threading.Event()

    def isatty(self) -> bool:
        return self.is_one

    def flush(self) -> None:
        self.was_flushed.set()


@pytest.fixture
def port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


def written(url: str, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = True, wait: float = 10.0) -> str:
    stderr = Terminal(is_one=is_terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    with announcing_outage(url):
        stderr.was_flushed.wait(wait)
        for thread in threading.enumerate():
            if thread.name.endswith("(_try)"):
                thread.join()
    return stderr.getvalue()


def test_a_terminal_reads_which_server_cannot_be_reached_without_its_password(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = written(f"postgresql://me:secret@127.0.0.1:{port}/jobs", monkeypatch)
    assert line == f"postgresql://me@127.0.0.1:{port}/jobs cannot be reached, trying for 30 s\n"


def test_a_program_reads_nothing_of_it(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(f"mongodb://127.0.0.1:{port}/jobs", monkeypatch, is_terminal=False, wait=0.0) == ""


def test_one_server_that_can_be_reached_is_enough(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://127.0.0.1:{port},127.0.0.1:{server.getsockname()[1]}/jobs"
        assert written(url, monkeypatch, wait=0.0) == ""


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql:///jobs?host=/tmp", ()),
        ("mongodb://u:p%40@a,[::1]:7/jobs?w=1", (("a", 27017), ("::1", 7))),
        ("mongodb+srv://cluster/jobs", ()),
        ("https://broker", (("broker", 7700),)),
        ("s3://bucket/jobs", ()),
    ],
)
def test_addresses_are_those_of_servers(url: str, found: tuple[tuple[str, int], ...]) -> None:
    assert addresses_of(url) == found
