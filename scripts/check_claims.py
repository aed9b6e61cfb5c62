"""Keep what the documents claim true to the code; `make check` runs this.

Each claim of docs/claims.toml has a proof that exists: an import, a command or a test. No sentence states of a claimed feature that it
is not there yet. Each extra that `all` has, each integration, each command and each module of `DOORS` belongs to a claim. No page
names an extra, an option of a command, an event or a metric that does not exist.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

import holdfast.integrations as holdfast_integrations
from holdfast import Rows
from holdfast._core.metrics import METRICS
from holdfast._engine.events import EventName
from holdfast.cli.commands import root as holdfast

LATER = re.compile(r"\bnot (?:\w+ )?yet\b|\bfollows(?=\s*(?:[.;,]|$))|\b(?:is|are) to follow\b|\bwill follow\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\s\|\s|\n\s*\n|\n\s*[*-] |\n\d+\. ")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
EXTRAS = re.compile(r"(?:holdfast|\.)\[([a-z,]+)\]")
EVENT = re.compile(r"([a-z]+)\.(?!(?:py|db|svg|html)$)[a-z_]+")
METRIC = re.compile(r"holdfast_[a-z_]+(?=[{\s(]|$)")
NOT_METRICS = re.compile(r"holdfast_(?:sqlite|postgres|enqueue|work|read|own|pastes_due|pastes_stuck)")
"""Fixtures of pytest, roles of PostgreSQL, and indexes."""
NOT_EVENTS = {"job", "recovery", "payload", "queue", "schedule", "workflow"}
"""Families whose names are also those of objects, or of actions in the audit."""

DOORS = {"dashboard.acting", "http.management"}
"""Features that are neither a command nor an extra."""
HELPERS = {"integrations.attempt_ids", "integrations.new_apps", "integrations.unsampled_spans"}
"""Modules that only other integrations import."""

Claim = Mapping[str, Any]


def check_proofs(claims: list[Claim], root: Path) -> Iterator[str]:
    """Yield the claims whose proof does not exist."""
    for claim in claims:
        kind, _, name = claim["proof"].partition(" ")
        if not {"import": _is_there, "command": _is_command, "test": _is_test}[kind](name, root):
            yield f"docs/claims.toml: {claim['feature']}: {claim['proof']!r} does not exist: name what proves it, or delete the claim"


def check_later(claims: list[Claim], pages: Mapping[str, str]) -> Iterator[str]:
    """Yield the sentences that put a claimed feature off."""
    words = {word: claim["feature"] for claim in claims for word in claim["words"]}
    for page, text in pages.items():
        for sentence in SENTENCE.split(FENCE.sub("", text)):
            if not (late := LATER.search(sentence)):
                continue
            if named := [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sentence)]:
                yield f"{page}: {late.group()!r} stands beside {named[0]}, which exists ({words[named[0]]}): {' '.join(sentence.split())}"


def check_complete(claims: list[Claim], root: Path) -> Iterator[str]:
    """Yield what exists and belongs to no claim."""
    extras = {extra for claim in claims for extra in claim.get("extras", ())}
    of_all = set(EXTRAS.search(_extras(root)["all"][0])[1].split(","))  # type: ignore[index]
    commands = {claim["proof"].split()[1] for claim in claims if claim["proof"].startswith("command ")}
    commands |= {command for claim in claims for command in claim.get("commands", ())}
    for name in sorted(of_all - extras):
        yield f"docs/claims.toml: no claim has the extra {name}: add one, with its proof"
    for name in sorted(extras - {*_extras(root)}):
        yield f"docs/claims.toml: {name} is not an extra of pyproject.toml: correct the claim"
    modules = {module for claim in claims for module in claim.get("modules", ())}
    for name in sorted(_modules() - modules):
        yield f"docs/claims.toml: no claim has the module {name}: add one, with its proof"
    for name in sorted({*holdfast.commands} ^ commands):
        yield f"docs/claims.toml: the command {name} is there without a claim, or claimed without being there"


def check_names(pages: Mapping[str, str], root: Path) -> Iterator[str]:
    """Yield the extras, options, events and metrics that pages name and that do not exist."""
    extras = {*_extras(root)}
    metrics = {f"holdfast_{name}" for name in METRICS}
    metrics |= {f"{name}{end}" for name in metrics for end in ("_total", "_bucket", "_sum", "_count")}
    events = {event.value for event in EventName}
    families = {event.split(".")[0] for event in events} - NOT_EVENTS
    for page, text in pages.items():
        for each in EXTRAS.findall(text):
            for name in {*each.split(",")} - extras:
                yield f"{page}: {name} is not an extra: see pyproject.toml"
        for code in CODE.findall(FENCE.sub("", text)):
            for metric in METRIC.findall(code):
                if metric not in metrics and not NOT_METRICS.fullmatch(metric):
                    yield f"{page}: {metric} is not a metric: see docs/reference/metrics.md"
            found = EVENT.fullmatch(code)
            if found and found[1] in families and code not in events and not hasattr(Rows, code.partition(".")[2]):
                yield f"{page}: {code} is not an event: see docs/reference/events.md"
            if code.startswith("holdfast "):
                yield from (f"{page}: `{code}`: {option} is not an option of it" for option in _unknown_options(code.split()[1:]))


def _modules() -> set[str]:
    integrations = {f"integrations.{each.name}" for each in iter_modules(holdfast_integrations.__path__)}
    return {*DOORS, *integrations} - HELPERS


def _unknown_options(words: list[str]) -> Iterator[str]:
    command: click.Command = holdfast
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    known = {option for each in command.params for option in each.opts} | {"--help", "--version"}
    if not isinstance(command, click.Group):
        named = (re.match(r"--[a-z][\w-]*", word) for word in words)
        yield from (found[0] for found in named if found and found[0] not in known)


def _is_there(name: str, _: Path) -> bool:
    module, _sep, attribute = name.partition(":")
    return find_spec(module) is not None and (not attribute or hasattr(import_module(module), attribute))


def _is_command(name: str, _: Path) -> bool:
    command: click.Command = holdfast
    for word in name.split():
        if not isinstance(command, click.Group) or word not in command.commands:
            return False
        command = command.commands[word]
    return True


def _is_test(name: str, root: Path) -> bool:
    place, _, test = name.partition(": ")
    file = root / "tests" / f"{place}.py"
    return file.exists() and f"def test_{test}(" in file.read_text(encoding="utf-8")


def _extras(root: Path) -> dict[str, list[str]]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["optional-dependencies"])


def main(root: Path) -> int:
    """Check the claims of the repository at `root`; 1 when one is wrong."""
    claims = tomllib.loads((root / "docs/claims.toml").read_text(encoding="utf-8"))["claim"]
    files = sorted([root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*/README.md")])
    pages = {str(page.relative_to(root)): page.read_text(encoding="utf-8") for page in files}
    found = [
        *check_proofs(claims, root),
        *check_later(claims, pages),
        *check_complete(claims, root),
        *check_names(pages, root),
    ]
    for advice in found:
        print(advice)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
