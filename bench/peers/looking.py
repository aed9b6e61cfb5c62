"""A look at a peer's tables, on a separate connection."""

from __future__ import annotations

from typing import Any

import psycopg


class Looking:
    """Asks one question after the other; nothing else waits for the answer."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def ask(self, query: str, *arguments: object) -> Any:
        """Return the first value of the first row, ``None`` if there is none."""
        row = self._connection.execute(query, arguments or None).fetchone()
        return row[0] if row else None

    def do(self, statement: str, *arguments: object) -> None:
        """Run a statement that answers no rows."""
        self._connection.execute(statement, arguments or None)

    def close(self) -> None:
        """Close the connection, if it is open."""
        self._connection.close()
