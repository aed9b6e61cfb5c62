"""The results as files: JSON and CSV, streamed row by row and byte for byte the same after any number of kills."""

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from analyzer.journal import Row, encode

Rows = Callable[[], Iterable[Row]]
COUNTERS = ("files", "binary", "large", "vendored", "symlinks", "submodules")


def write_json(head: Mapping[str, object], rows: Rows, target: Path) -> None:
    """Write the whole result as one JSON object, keys sorted, a line per key and per commit of `history`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.json"
    >>> write_json({"tip": "c0ffee"}, lambda: [{"commit": "c0ffee"}], path); path.read_text()
    '{\\n"history":[\\n{"commit":"c0ffee"}\\n],\\n"tip":"c0ffee"\\n}\\n'
    """
    with replaced(target) as file:
        separator = "{\n"
        for key in sorted({*head, "history"}):
            file.write(f"{separator}{encode(key)}:")
            separator = ",\n"
            if key == "history":
                _write_rows(file, rows())
            else:
                file.write(encode(head[key]))
        file.write("\n}\n")


def _write_rows(file: TextIO, rows: Iterable[Row]) -> None:
    separator = "[\n"
    for row in rows:
        file.write(separator + encode(row))
        separator = ",\n"
    file.write("\n]")


def write_csv(rows: Rows, target: Path) -> None:
    """Write a line per commit and a column per language, in alphabetical order; dates in ISO 8601, UTC.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.csv"
    >>> row = {"commit": "c0ffee", "date": 0, "mainline": True, "languages": {"C": 7}, **dict.fromkeys(COUNTERS, 0)}
    >>> write_csv(lambda: [row], path); path.read_text().splitlines()[1]
    'c0ffee,1970-01-01T00:00:00Z,1,7,0,0,0,0,0,0,7'
    """
    languages = sorted({language for row in rows() for language in languages_of(row)})
    with replaced(target) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["commit", "date", "mainline", "lines", *COUNTERS, *languages])
        for row in rows():
            lines = languages_of(row)
            moment = datetime.fromtimestamp(int(str(row["date"])), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            known = [row["commit"], moment, int(bool(row["mainline"])), sum(lines.values()), *(row[name] for name in COUNTERS)]
            writer.writerow([*known, *(lines.get(language, 0) for language in languages)])


def languages_of(row: Row) -> dict[str, int]:
    """Return the lines per language of a row.

    >>> languages_of({"languages": {"C": 7}})
    {'C': 7}
    """
    languages = row["languages"]
    assert isinstance(languages, dict)
    return languages


@contextmanager
def replaced(target: Path) -> Iterator[TextIO]:
    """Open a file which replaces the target only when it is complete and durable.

    The name of the draft holds the process, so that an attempt which lost its job cannot write into its successor's.
    """
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
