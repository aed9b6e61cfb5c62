"""The findings for readers: a table on the terminal, the same for documents, and a file for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table

from bench.peers_torture.catalogue import Setting
from bench.peers_torture.verdict import Finding

Findings = dict[str, dict[str, Finding]]
"""By the setting's title and the fault."""

COLUMNS = (
    "peer, setting",
    "kill -9: jobs begun again (after)",
    "kill -9: run twice at once",
    "frozen: jobs begun again (after)",
    "frozen: run twice at once (longest)",
    "frozen: late completions accepted",
    "completed in the end",
)


def rows(settings: Sequence[Setting], findings: Findings) -> list[tuple[str, ...]]:
    """Make the rows of the table."""
    return [_row(setting, findings.get(setting.title, {})) for setting in settings]


def table(found: Sequence[tuple[str, ...]]) -> Table:
    """Make the table for the terminal."""
    shown = Table(*COLUMNS)
    for row in found:
        shown.add_row(*row)
    return shown


def markdown(settings: Sequence[Setting], found: Sequence[tuple[str, ...]]) -> str:
    """Write the table and the settings, for a document."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *found]
    figures = [
        f"* **{each.title}** ({each.versions() or 'not installed'}): {each.text}. Source: {each.source}." for each in settings
    ]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", *figures]) + "\n"


def write(folder: Path, about: dict[str, str], settings: Sequence[Setting], findings: Findings) -> list[Path]:
    """Everything as JSON, the table as Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = [
        {"setting": each, "versions": each.versions(), "findings": list(findings.get(each.title, {}).values())}
        for each in settings
    ]
    data = folder / "peers-torture.json"
    data.write_bytes(msgspec.json.format(msgspec.json.encode({"about": about, "peers": listed}), indent=1) + b"\n")
    text = folder / "peers-torture.md"
    text.write_text(markdown(settings, rows(settings, findings)), encoding="utf-8")
    return [data, text]


def _row(setting: Setting, found: dict[str, Finding]) -> tuple[str, ...]:
    if setting.versions() is None:
        return (setting.title, "not installed", *[""] * (len(COLUMNS) - 2))
    kill, freeze = found.get("kill"), found.get("freeze")
    completed = [f"{each.completed} of {each.jobs}" for each in (kill, freeze) if each is not None and not each.error]
    return (
        setting.title,
        _again(kill),
        "" if kill is None or kill.error else _twice(kill),
        _again(freeze),
        "" if freeze is None or freeze.error else f"{_twice(freeze)} ({freeze.longest:g} s)",
        "" if freeze is None or freeze.error else _accepted(freeze),
        ", ".join(completed),
    )


def _again(found: Finding | None) -> str:
    if found is None:
        return ""
    if found.error:
        return "no trial: " + found.error.splitlines()[0]
    after = f" ({found.recovered[-1]:.0f} s)" if found.recovered else ""
    return f"{len(found.recovered)} of {found.in_flight}{after}"


def _twice(found: Finding) -> str:
    return f"{found.twice} of {found.jobs}"


def _accepted(found: Finding) -> str:
    """Count accepted completions among jobs that were run again: only there another owner existed."""
    if not found.recovered:
        return "not taken over"
    refused = found.ended_late - found.accepted
    return f"{found.accepted} of {len(found.recovered)}" + (f", {refused} refused" if refused else "")
