"""The databases of a PostgreSQL server, started here or elsewhere, by its ``psql``: no driver is needed."""

import itertools
import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_numbers = itertools.count(1)


class Databases:
    """Makes and drops databases; ``dsn`` names the server, one of its databases, and a user who may."""

    def __init__(self, dsn: str, psql: Path) -> None:
        self._dsn, self._psql = dsn, psql

    def dsn(self, database: str) -> str:
        """Return the address of a database."""
        return urlunsplit(urlsplit(self._dsn)._replace(path=f"/{database}"))

    def create(self, *, template: str = "template0", strategy: str = "") -> str:
        """Make a fresh database, a copy of one without connections, and return its address. ``strategy``: how the server copies it."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} TEMPLATE {template} {f'STRATEGY {strategy}' if strategy else ''}")
        return self.dsn(name)

    def drop(self, dsn: str) -> None:
        """Drop a database even if clients are connected; do nothing if it is gone."""
        self.sql(f"DROP DATABASE IF EXISTS {name_of(dsn)} WITH (FORCE)")

    def sql(self, *statements: str, dsn: str | None = None) -> str:
        """Run statements and return a line for each row, ``|`` between columns. A ``RuntimeError`` has the server's message."""
        words = [str(self._psql), "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", dsn or self._dsn]
        for statement in statements:
            words += ["-c", statement]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"{'; '.join(statements)}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")


def name_of(dsn: str) -> str:
    """Return the database that an address names."""
    return urlsplit(dsn).path.removeprefix("/")
