"""What works on which system: a pure decision, and code that does not need what Windows lacks."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast._core.platforms import limits_of, refusal_of_worker
from holdfast._system.ending_signals import on_ending_signals
from holdfast.opening import open_transport
from holdfast.settings import Settings
from holdfast.transports.polling import PollingTransport
from tests.cli.support import run

PROGRAM = Path(__file__).with_name("without_posix.py")


def test_workers_run_on_linux_and_macos_and_not_on_windows() -> None:
    assert [refusal_of_worker(each) is None for each in ("linux", "darwin", "freebsd14", "win32")] == [True, True, True, False]


def test_limits_are_named_with_a_remedy() -> None:
    assert limits_of("linux", sees_processes=True) is None
    for platform, remedy in (("linux", "mount /proc"), ("darwin", "Linux for production"), ("win32", "WSL 2")):
        limits = limits_of(platform, sees_processes=False)
        assert limits is not None
        assert remedy in limits[1]


def test_a_worker_on_windows_is_refused_before_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast._core.platforms.refusal_of_worker", lambda _: "it cannot run here: use another")
    done = run("worker", "nothing:app")
    assert (done.exit_code, done.output) == (2, "error: it cannot run here: use another\n")


def test_without_sockets_of_files_workers_poll(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr("socket.AF_UNIX")
    assert isinstance(open_transport(Settings.of(f"sqlite:///{tmp_path}/jobs.db")), PollingTransport)


class WithoutSignals(asyncio.SelectorEventLoop):
    """An event loop that takes no signals, as those of Windows."""

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, WithoutSignals])
def test_a_signal_ends_a_command_on_each_event_loop(kind: type[asyncio.AbstractEventLoop]) -> None:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    async def serve() -> None:
        ended = asyncio.Event()
        on_ending_signals(asyncio.get_running_loop(), ended.set)
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await ended.wait()

    try:
        with asyncio.Runner(loop_factory=kind) as runner:
            runner.run(serve())
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def test_enqueuing_embedded_workers_and_commands_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["run_due 1", "embedded 6"]
    answers = dict(line.split(maxsplit=1) for line in lines[2:] if " " in line)
    assert "True" in lines
    assert [answers[name][0] for name in ("jobs", "check", "backup", "worker", "demo")] == ["0", "0", "0", "2", "2"]
    for name in ("worker", "demo"):
        assert "does not run on Windows" in answers[name]
