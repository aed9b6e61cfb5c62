"""How far the workers are, seen in the store itself: one small question, the same for the head of the queue and for its end."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path
from typing import IO

from bench.peers.looking import Looking


class FileWatch:
    """A database of SQLite."""

    def __init__(self, url: str) -> None:
        self._file = sqlite3.connect(Path(url.removeprefix("sqlite:///")), isolation_level=None, timeout=30)

    def ask(self, query: str) -> object:
        """Return the first value of the first row."""
        rows = self._file.execute(query).fetchall()
        return rows[0][0] if rows else None

    def is_free(self) -> bool:
        """Return whether no process holds the lock of the file."""
        try:
            self._file.execute("PRAGMA busy_timeout = 0")
            self._file.execute("BEGIN IMMEDIATE")
            self._file.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        self._file.execute("PRAGMA busy_timeout = 30000")
        return True

    def close(self) -> None:
        self._file.close()


class RedisWatch:
    """A database of Redis; a query is commands that answer integers, of which it returns the sum."""

    def __init__(self, url: str) -> None:
        where, _, number = url.removeprefix("redis://").partition("/")
        host, _, port = where.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._answers: IO[bytes] = self._socket.makefile("rb")
        self._send(f"SELECT {number}")

    def ask(self, query: str) -> int:
        """Return the sum of the answers."""
        return sum(int(self._send(command)[1:]) for command in query.split("; "))

    def close(self) -> None:
        self._socket.close()

    def _send(self, command: str) -> bytes:
        self._socket.sendall(f"{command}\r\n".encode())
        return self._answers.readline().strip()


Watch = Looking | FileWatch | RedisWatch


def watch(url: str) -> Watch:
    """Open a connection that only looks."""
    if url.startswith("redis:"):
        return RedisWatch(url)
    return Looking(url) if url.startswith("postgres") else FileWatch(url)
