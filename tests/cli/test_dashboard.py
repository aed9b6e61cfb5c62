"""``holdfast dashboard``: what it refuses to start with, and its life as a process."""

import importlib.util
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY, create_server

import pytest

from holdfast.dashboard.serving import _listener
from tests.cli.support import enqueue, run, url

HOLDFAST = (sys.executable, "-c", "from holdfast.cli import main; main()")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "jobs.example"])
def test_a_host_that_other_machines_reach_is_refused_with_the_remedy(host: str) -> None:
    done = run("dashboard", "--url", "memory://", "--host", host)
    assert done.exit_code == 2
    assert "pass --token-file FILE, or use 127.0.0.1 and forward the port" in done.stderr


def test_a_port_that_is_taken_is_refused_with_the_remedy(folder: Path) -> None:
    enqueue()
    with create_server(("127.0.0.1", 0)) as taken:
        done = run("dashboard", "--url", "sqlite:///jobs.db", "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 2
    assert "pass another one, or --port 0" in done.stderr


def test_a_missing_package_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[[str], ModuleSpec | None] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jinja2" else find(name))
    done = run("dashboard", "--url", "memory://")
    assert done.exit_code == 2
    assert "jinja2 is not installed: pip install jinja2 starlette uvicorn (the extra holdfast[dashboard])" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_a_store_until_it_is_asked_to_stop(folder: Path, number: signal.Signals) -> None:
    job = enqueue()
    words = (*HOLDFAST, "dashboard", "--url", url(folder), "--port", "0")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{link}jobs/{job}", timeout=20) as answer:
            assert "has waited for" in answer.read().decode()
        with urllib.request.urlopen(f"{link}api/v1/events", timeout=20) as events:
            assert events.readline() == b"retry: 500\n"
            process.send_signal(number)
            assert b"event: counts" not in events.read()  # it ends
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


def test_a_store_in_memory_is_refused_because_no_other_process_sees_it() -> None:
    refused = run("dashboard", "--url", "memory://", "--port", "0")
    assert (refused.exit_code, "from inside its own process" in refused.stderr) == (2, True)


def test_the_end_of_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with _listener("127.0.0.1", 0) as listener:
        assert listener.getsockopt(IPPROTO_TCP, TCP_NODELAY)
