"""A Redis server, for the peers whose broker it is."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from holdfast.testing.servers import Server, ServerMissing


class RedisServer(Server):
    """Debian's, on a free port, nothing on disk; each trial has a separate database."""

    name = "redis"

    def __init__(self) -> None:
        found = shutil.which("redis-server")
        if found is None:
            raise ServerMissing("redis-server is missing: apt-get install redis-server")
        self._program = found
        self._count = -1
        super().__init__()

    def create_database(self) -> str:
        """Return the address of a fresh database."""
        self._count += 1
        return f"redis://127.0.0.1:{self.port}/{self._count}"

    def version(self) -> str:
        """Return the version of the server."""
        output = subprocess.run([self._program, "--version"], capture_output=True, text=True, check=True).stdout
        return output.split("v=")[1].split()[0]

    def _words(self) -> Sequence[str | Path]:
        here = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder)
        return (self._program, *here, "--save", "", "--databases", "64")

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
