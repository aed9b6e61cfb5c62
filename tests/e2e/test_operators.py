"""What an operator types while real workers run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import App
from tests.e2e.waiting import until

HOLDFAST = (sys.executable, "-c", "from holdfast.cli import main; main()")
ON_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
START = 20.0
TASKS = """
from holdfast import App

app = App("{url}", ttl="3s")


@app.task
async def which() -> int:
    return {answer}
"""


def write(folder: Path, answer: object) -> None:
    (folder / "shop.py").write_text(TASKS.format(url=f"sqlite:///{folder}/jobs.db", answer=answer))


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST")}


@contextmanager
def worker(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a worker in that folder with its log in `log`; end it by SIGINT."""
    with (folder / "log").open("w") as log:
        words = [*HOLDFAST, "worker", "shop", *options]
        process = subprocess.Popen(words, cwd=folder, env=environment(), stderr=log, stdout=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(START) == 0


def says(folder: Path, text: str) -> bool:
    return text in (folder / "log").read_text()


def answers(folder: Path, expected: int) -> bool:
    app = App(f"sqlite:///{folder}/jobs.db")
    try:
        return bool(app.enqueue("which").result(timeout=START) == expected)
    finally:
        app.close()


def test_changed_code_runs_and_broken_code_does_not(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with worker(tmp_path, "--reload"):
        until(lambda: says(tmp_path, "worker.ready"), within=START)
        assert answers(tmp_path, 1)
        write(tmp_path, 2)
        until(lambda: answers(tmp_path, 2), within=START)
        write(tmp_path, "oh (no")
        until(lambda: says(tmp_path, "the old code runs on"), within=START)
        assert answers(tmp_path, 2)
        write(tmp_path, 3)
        until(lambda: answers(tmp_path, 3), within=START)
    assert says(tmp_path, "holdfast ended: SIGINT")


def test_a_living_worker_answers_a_ping_and_top_ends_at_q(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with worker(tmp_path, "--log-format", "json"):
        until(lambda: says(tmp_path, "worker.ready"), within=START)
        words = [*HOLDFAST, "workers", "ping", "--app", "shop", "--json"]
        pinged = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=START, check=True)
        (answer,) = json.loads(pinged.stdout)
        assert answer["is_alive"]
        assert answer["worker"] in watched(tmp_path, b"q")
        assert answer["worker"] in watched(tmp_path, b"\x03")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"worker.ready", None} <= {line.get("event") for line in lines}
    assert next(line["worker"] for line in lines if line.get("event") == "worker.ready") == answer["worker"]


def watched(folder: Path, key: bytes) -> str:
    """Return what `top` drew on a terminal until that key."""
    words = [sys.executable, "-c", ON_A_TERMINAL, *HOLDFAST, "top", "--app", "shop", "--interval", "100ms"]
    wide = {**environment(), "COLUMNS": "160", "LINES": "40", "TERM": "xterm"}
    top = subprocess.Popen(words, cwd=folder, env=wide, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert top.stdin is not None
    assert top.stdout is not None
    drawn = b""
    try:
        while drawn.count(b"holdfast top") < 2:
            drawn += top.stdout.read(65536) or b""
            assert top.poll() is None, drawn
        top.stdin.write(key)
        drawn += top.communicate(timeout=START)[0]
    finally:
        top.kill()  # the terminal and its processes end with it
        top.wait()
    assert top.returncode == 0, drawn
    return drawn.decode()
