"""One more paste: ``python paste.py 'some text' --days 7``. Its number is printed."""

import argparse
import hashlib
from random import Random
from typing import Any

from bucket import Bucket
from tables import IS_SQLITE, connected

WHEN = "datetime('now', ? || ' seconds')" if IS_SQLITE else "now() + %s * interval '1 second'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text")
    parser.add_argument("--days", type=float, default=7.0)
    asked = parser.parse_args()
    print(paste(asked.text.encode(), asked.days * 86_400))


def paste(text: bytes, seconds: float) -> int:
    """Store a paste and return its number. An existing text is not stored again, unless its last paste has gone already."""
    number, mark = Random().getrandbits(62), "?" if IS_SQLITE else "%s"
    with connected() as connection:
        content = _taken(connection, digest(text), mark) or _stored(connection, text, mark)
        values = f"({mark}, {mark}, {WHEN}, 'LIVE')"
        columns = "(id, content, expires_at, status)"
        connection.execute(f"INSERT INTO pastes {columns} VALUES {values}", (number, content, seconds))  # noqa: S608
    return number


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _taken(connection: Any, digest: str, mark: str) -> int | None:
    """Take a live content for one paste more. One whose count was zero once is not live: its object may be deleted any time."""
    sql = f"UPDATE contents SET uses = uses + 1 WHERE digest = {mark} AND status = 'LIVE' RETURNING id"  # noqa: S608
    found = connection.execute(sql, (digest,)).fetchone()
    return found and int(found[0])


def _stored(connection: Any, text: bytes, mark: str) -> int:
    """Store it under a name that no object ever had. If another process stored the same text at the same time, take that one."""
    content = Random().getrandbits(62)
    name = f"contents/{content:016x}"
    Bucket().put(name, text)
    row = (content, digest(text), name)
    found = connection.execute(
        f"INSERT INTO contents (id, digest, object, uses, status) VALUES ({mark}, {mark}, {mark}, 1, 'LIVE') "  # noqa: S608
        "ON CONFLICT (digest) WHERE status = 'LIVE' DO UPDATE SET uses = contents.uses + 1 RETURNING id, object",
        row,
    ).fetchone()
    if found[1] != name:
        Bucket().delete([name])
    return int(found[0])


if __name__ == "__main__":
    main()
