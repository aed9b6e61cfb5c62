"""The statements of SQL scripts."""

import sqlite3
from collections.abc import Iterator


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one, because sqlite3's own ``executescript`` commits before it starts."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
