"""The join of the demo's workflow: what several analyses found, in one report."""

from pathlib import Path
from typing import Any

from holdfast.demo.analysis import repository_name

SHOWN = 3


def compare(out: str, api: dict[str, Any], web: dict[str, Any], core: dict[str, Any]) -> dict[str, object]:
    """Write `out`/report.md from the results of three analyses, and return its path and the lines of all."""
    found = sorted((api, web, core), key=lambda each: -each["lines"])
    rows = [
        f"| {repository_name(each['repo'])} | {each['commits']:,} | {each['lines']:,} | {_top(each['languages'])} |"
        for each in found
    ]
    head = [
        "# How the code of three repositories evolved",
        "",
        "| repository | commits | lines | languages |",
        "|---|---|---|---|",
    ]
    report = Path(out) / "report.md"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")
    return {"report": str(report), "lines": sum(each["lines"] for each in found)}


def _top(languages: dict[str, int]) -> str:
    return ", ".join(sorted(languages, key=lambda name: -languages[name])[:SHOWN])
