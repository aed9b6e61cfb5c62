"""The units of systemd are read by systemd itself, and what they state of Holdfast is true."""

import shlex
import subprocess
from configparser import ConfigParser, SectionProxy
from pathlib import Path

import pytest

from holdfast._core.timing import LeaseTiming
from holdfast.cli.commands import root
from holdfast.cli.serve import USAGE
from tests.deploy.tools import DEPLOY, program

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMMAND = "/srv/shop/.venv/bin/holdfast"


def service(unit: Path) -> SectionProxy:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # systemd distinguishes upper from lower case
    parser.read_string(unit.read_text())
    return parser["Service"]


def test_there_is_a_unit_for_workers_and_one_for_the_dashboard() -> None:
    assert [unit.name for unit in UNITS] == ["holdfast-dashboard.service", "holdfast-worker.service"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_with_options_that_exist(unit: Path) -> None:
    found = service(unit)
    executable, name, *words = shlex.split(found["ExecStart"])
    assert executable == COMMAND
    assert root.commands[name].make_context(name, ["shop:app", *words] if name == "worker" else words)
    assert (found["Type"], found["NotifyAccess"]) == ("notify", "main")
    assert found["RestartPreventExitStatus"] == str(USAGE)
    assert "AF_UNIX" in found["RestrictAddressFamilies"]  # the manager's socket, and those by which workers are woken


def test_the_unit_of_workers_waits_longer_than_their_grace_and_than_a_beat() -> None:
    found = service(DEPLOY / "systemd/holdfast-worker.service")
    name, *words = shlex.split(found["ExecStart"])[1:]
    grace = root.commands[name].make_context(name, ["shop:app", *words]).params["grace"]
    assert grace < int(found["TimeoutStopSec"])
    assert int(found["WatchdogSec"]) > LeaseTiming.of("30s").ttl
    assert int(found["TimeoutStartSec"]) > 30  # after 30 s without the store the worker itself gives up
    assert (found["KillMode"], found["OOMPolicy"]) == ("mixed", "continue")


@pytest.mark.prove
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "apt-get install systemd, as `make prove` does by scripts/install_debian.sh")
    present = tmp_path / "holdfast"
    present.write_text("#!/bin/sh\n")
    present.chmod(0o755)
    for unit in UNITS:  # systemd looks for the program
        (tmp_path / unit.name).write_text(unit.read_text().replace(COMMAND, str(present)))
    units = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.prove
def test_systemd_itself_names_a_wrong_line(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "apt-get install systemd, as `make prove` does by scripts/install_debian.sh")
    wrong = tmp_path / "wrong.service"
    wrong.write_text("[Service]\nType=notified\nExecStart=/bin/true\nWatchdogSecs=60\n")
    done = subprocess.run([analyze, "verify", "--man=no", str(wrong)], capture_output=True, text=True, timeout=60, check=False)
    assert "WatchdogSecs" in done.stderr
