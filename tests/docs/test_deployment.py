"""The unit, the image and the manifest of the pages on deployment are well-formed, and what they say of Holdfast is true."""

import json
import re
import shlex
from configparser import ConfigParser
from typing import Any

import pytest

from holdfast._core.durations import seconds
from holdfast._core.timing import LeaseTiming
from holdfast.cli.commands import root
from tests.docs.pages import ROOT, Block, blocks_of

BLOCKS = [*blocks_of(ROOT / "docs/how-to/deployment.md"), *blocks_of(ROOT / "docs/how-to/kubernetes.md")]
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}


def block(language: str) -> Block:
    return next(each for each in BLOCKS if each.language == language)


def grace_of(arguments: list[str]) -> float:
    """Return what the worker is given, once click has taken its options."""
    command = root.commands[arguments[0]]
    return float(command.make_context(arguments[0], list(arguments[1:])).params["grace"])


def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # systemd tells upper from lower case
    parser.read_string(block("ini").text)
    return parser


def test_systemd_waits_longer_than_the_grace_and_signals_the_supervisor_alone() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/holdfast")
    assert grace_of(arguments) < int(service["TimeoutStopSec"])
    assert (service["KillMode"], service["OOMPolicy"], service["RestartPreventExitStatus"]) == ("mixed", "continue", "2")


def image() -> list[tuple[str, str]]:
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in block("dockerfile").text.splitlines())]


def test_the_container_takes_its_signal_itself_and_ends_before_docker_kills_it() -> None:
    assert {name for name, _ in image()} <= INSTRUCTIONS
    output = dict(image())
    assert json.loads(output["ENTRYPOINT"]) == ["holdfast"]
    assert grace_of(json.loads(output["CMD"])) < 10
    assert output["ENV"].startswith("HOLDFAST_URL=sqlite:////")


def read_yaml(text: str) -> Any:
    """Read the plain half of YAML: mappings, lists, scalars and flow lists, by indentation."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    value, rest = _node(lines)
    assert rest == []
    return value


def _node(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    depth, found = lines[0][0], [] if lines[0][1].startswith("- ") else {}
    while lines and lines[0][0] == depth:
        text, lines = lines[0][1], lines[1:]
        if isinstance(found, list):
            value, lines = _node([(depth + 2, text.removeprefix("- ")), *lines])
            found.append(value)
            continue
        name, colon, scalar = text.partition(":")
        assert colon, text
        found[name], lines = (_scalar(scalar.strip()), lines) if scalar else _node(lines)
    assert not lines or lines[0][0] < depth, lines[0]
    return found, lines


def _scalar(text: str) -> Any:
    return json.loads(text) if text.startswith("[") or re.fullmatch(r"\d+", text) else text


def pod() -> dict[str, Any]:
    return dict(read_yaml(block("yaml").text)["spec"]["template"]["spec"])


def test_the_pod_has_longer_than_the_grace_and_one_file_of_one_node() -> None:
    manifest = read_yaml(block("yaml").text)
    (container,) = pod()["containers"]
    assert (manifest["kind"], manifest["spec"]["replicas"]) == ("StatefulSet", 1)
    assert grace_of(container["args"]) < pod()["terminationGracePeriodSeconds"]
    (variable,) = container["env"]
    (mount,) = container["volumeMounts"]
    (claim,) = manifest["spec"]["volumeClaimTemplates"]
    assert variable["name"] == "HOLDFAST_URL"
    assert variable["value"].startswith(f"sqlite:///{mount['mountPath']}/")
    assert (mount["name"], claim["spec"]["accessModes"]) == (claim["metadata"]["name"], ["ReadWriteOncePod"])


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
def test_a_probe_waits_longer_than_its_command(probe: str) -> None:
    (container,) = pod()["containers"]
    assert container[probe]["exec"]["command"] == ["holdfast", "workers", "ping"]
    timing = LeaseTiming.of("30s")
    assert container[probe]["timeoutSeconds"] > timing.beat + timing.margin
    assert seconds(container[probe]["periodSeconds"]) > 0
