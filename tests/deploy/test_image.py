"""The image runs as a user without rights, gets its signals itself, and the compose file starts what exists."""

import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from holdfast.cli.commands import root
from tests.deploy.tools import DEPLOY, ROOT, program

FILE = DEPLOY / "docker/Dockerfile"
COMPOSE = yaml.safe_load((DEPLOY / "docker/compose.yaml").read_text())


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the last stage, lines that go on joined."""
    text = re.sub(r"\\\n\s*", "", "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#")))
    found = [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]
    last = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[last:]


def test_the_image_pins_python_and_runs_as_a_user() -> None:
    assert re.search(r"^ARG PYTHON=3\.1[1-4]\.\d+-slim-\w+$", FILE.read_text(), re.MULTILINE)
    last = dict(instructions())
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last["USER"])
    assert last["STOPSIGNAL"] == "SIGTERM"


def test_the_image_gives_its_signals_to_the_supervisor() -> None:
    last = dict(instructions())
    assert json.loads(last["ENTRYPOINT"]) == ["holdfast"]
    name, *words = json.loads(last["CMD"])
    assert root.commands[name].make_context(name, ["shop:app", *words])
    shell, flag, script = json.loads(last["HEALTHCHECK"].partition(" CMD ")[2] or last["HEALTHCHECK"].partition("CMD ")[2])
    assert (shell, flag) == ("sh", "-c")
    assert script.startswith("exec holdfast workers ping")


def test_the_image_copies_files_that_exist_and_extras_that_exist() -> None:
    text = FILE.read_text()
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in line.split())
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    kept = re.findall(r"^!(\S+)$", (DEPLOY / "docker/Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert {*kept} == {"pyproject.toml", "README.md", "LICENSE", "src"}


def services() -> dict[str, Any]:
    return dict(COMPOSE["services"])


def test_the_compose_file_starts_workers_and_the_dashboard_after_the_schema() -> None:
    assert [*services()] == ["postgres", "migrate", "worker", "dashboard"]
    for name in ("migrate", "worker", "dashboard"):
        command, *words = services()[name]["command"]
        first = [] if command == "dashboard" else ["shop:app"]
        assert root.commands[command].make_context(command, [*first, *words])
    for name in ("worker", "dashboard"):
        assert services()[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert all(found.startswith("127.0.0.1:") for found in services()["dashboard"]["ports"])


def test_the_compose_file_waits_longer_than_the_grace_and_has_no_password() -> None:
    worker = services()["worker"]
    name, *words = worker["command"]
    grace = root.commands[name].make_context(name, ["shop:app", *words]).params["grace"]
    assert grace < int(worker["stop_grace_period"].removesuffix("s"))
    text = (DEPLOY / "docker/compose.yaml").read_text()
    passwords = re.findall(r"PASSWORD: (\S+)", text) + re.findall(r"//holdfast:(\S+)", text)
    assert len(passwords) == 2
    assert all(each.startswith("${POSTGRES_PASSWORD:?") for each in passwords)


@pytest.mark.prove
def test_hadolint_finds_nothing_wrong() -> None:
    hadolint = program("hadolint", "pip install -e '.[deploy]', as `make prove` does")
    done = subprocess.run([hadolint, str(FILE)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
