"""`holdfast demo` on servers, with the very commands of the documentation: a whole supervisor dies, another one takes over."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast import App
from holdfast.testing.servers.process import free_port
from tests.docs.pages import ROOT, blocks_of, commands_of
from tests.e2e.scripted_workers import is_alive

PAGE = ROOT / "docs" / "how-to" / "two-machines.md"
PORTS = {"54320": str(free_port()), "42220": str(free_port())}
"""Those on the page, which the servers take by themselves, and those that are free here."""
TIMEOUT = 60.0


def typed(number: int) -> list[str]:
    """Return the words of the page's n-th command, for these tests' interpreter and with other ports."""
    commands = [command.text for block in blocks_of(PAGE) if block.language == "console" for command in commands_of(block)]
    text = re.sub(r"\d{5}", lambda found: PORTS[found[0]], commands[number])
    program, *words = text.split()
    return [*{"python": [sys.executable], "holdfast": [sys.executable, "-m", "holdfast.cli"]}[program], *words]


@contextmanager
def served(number: int, port: str) -> Iterator[str]:
    """Run the server of the page's n-th command, as long as it is needed; yield its address."""
    with subprocess.Popen([*typed(number), "--port", port], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            assert server.wait(TIMEOUT) == 0


@pytest.fixture
def addresses() -> Iterator[tuple[str, str]]:
    with ExitStack() as stack:
        yield stack.enter_context(served(0, PORTS["54320"])), stack.enter_context(served(1, PORTS["42220"]))


def show(folder: Path, words: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=2 * TIMEOUT, check=False)


@pytest.mark.prove
@pytest.mark.timeout(150)
def test_a_supervisor_dies_with_all_its_processes_and_another_one_takes_over(tmp_path: Path, addresses: tuple[str, str]) -> None:
    command = typed(2)
    assert [word for word in command if "://" in word] == list(addresses)
    done = show(tmp_path, [*command, "--seconds", "4"])
    assert done.returncode == 0, done.stderr + done.stdout
    output = done.stdout
    killed = re.search(r"^killed worker (\S+)-(\d+)-\w+ \(SIGKILL\) at (\d+) %$", output, re.MULTILINE)
    assert killed
    assert 40 <= int(killed[3]) <= 60
    supervisor = re.search(r"^killed its supervisor (\d+) with it, (\d+) processes in all", output, re.MULTILINE)
    assert supervisor
    assert int(supervisor[2]) >= 3, "a supervisor, a worker and its guard"
    assert not is_alive(int(supervisor[1]))
    rescue = re.search(r"^rescued by worker (\S+) after (\d+\.\d+) s: attempt 2$", output, re.MULTILINE)
    assert rescue
    assert 2.0 < float(rescue[2]) < 10.0, "only the end of its lease tells that it is dead"
    assert re.search(r"^resumed from checkpoint: commit \d+ of 400 \(\d+ %\)$", output, re.MULTILINE)
    chart = Path(output.splitlines()[-1])
    assert chart.is_file()
    app = App(addresses[0])
    (view,) = app.jobs.list()
    assert (view.state, view.attempt, view.crashes) == ("completed", 2, 1)
    assert app.workers.list() == [], "no worker is left"
    app.close()


def test_a_server_that_does_not_answer_is_named_with_a_remedy(tmp_path: Path) -> None:
    refused = show(tmp_path, typed(2))
    assert refused.returncode == 75, refused.stderr
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr
