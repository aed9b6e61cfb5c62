"""A table of the application, mostly in the database of the jobs: the workers under torture process its rows."""

from collections.abc import Callable

TABLE, FILE = "pastes", "rows.db"
"""The table, and the SQLite file in which it is if the store of the jobs has no tables."""
PENDING, IN_PROGRESS, DONE = "NEW", "BUSY", "GONE"


class WatchedTable:
    """Rows, each of which is processed once, and a count that falls by one in the same commit.

    ``say`` runs statements and returns the lines of the last one; ``stamp`` is the type of the column of stamps.
    """

    def __init__(self, say: Callable[..., list[str]], stamp: str) -> None:
        self._say = say
        self.rows = 0
        say(
            f"CREATE TABLE {TABLE} (id integer PRIMARY KEY, status text NOT NULL, claimed_at {stamp}, owner text)",
            "CREATE TABLE contents (id integer PRIMARY KEY, number integer NOT NULL)",
            "INSERT INTO contents VALUES (1, 0)",
        )

    def fill(self, many: int) -> None:
        """Add rows that are due."""
        rows = ", ".join(f"({number}, '{PENDING}')" for number in range(self.rows + 1, self.rows + many + 1))
        self._say(f"INSERT INTO {TABLE} (id, status) VALUES {rows}", f"UPDATE contents SET number = number + {many} WHERE id = 1")
        self.rows += many

    def is_done(self) -> bool:
        """Return whether no row is left to do."""
        return not self._count(f"SELECT count(*) FROM {TABLE} WHERE status <> '{DONE}'")

    def wrong(self) -> list[str]:
        """Return what is wrong once all rows are processed."""
        left = self._count(f"SELECT count(*) FROM {TABLE} WHERE status <> '{DONE}'")
        kept = self._count(f"SELECT count(*) FROM {TABLE}")
        number = self._count("SELECT number FROM contents WHERE id = 1")
        found = [f"{left} rows of the watched table are not done"] if left else []
        found += [f"{self.rows - kept} rows of the watched table are gone"] if kept != self.rows else []
        return found + ([f"the count beside the watched table is {number} and not {left}"] if number != left else [])

    def _count(self, question: str) -> int:
        return int(self._say(question)[0])
