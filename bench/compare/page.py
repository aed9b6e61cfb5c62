"""The table and the chart of docs/performance.md, from the stored results."""

from pathlib import Path


def write(results: Path) -> int:
    return 0
