"""PgBouncer in front of a PostgreSQL server."""

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.process import Server, ServerMissing, as_other_user


class PgBouncer(Server):
    """Debian's ``pgbouncer``, for all databases and all users of a server; ``settings`` override its configuration.

    >>> with PostgresServer() as server, PgBouncer(server) as pooler:  # doctest: +SKIP
    ...     app = App(pooler.dsn("postgres"), pooler="transaction")
    """

    name = "pgbouncer"
    _gentle_signal = signal.SIGTERM

    def __init__(self, server: PostgresServer, **settings: str) -> None:
        self._program = find_pgbouncer()
        super().__init__()
        self._behind = server
        self._settings = {"pool_mode": "transaction", "default_pool_size": "20", "max_client_conn": "500", **settings}

    def dsn(self, database: str = "postgres", *, user: str = "postgres") -> str:
        """Return the address of a database, through this pooler."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def through(self, dsn: str) -> str:
        """Translate an address of the server to one through this pooler."""
        return dsn.replace(f":{self._behind.port}/", f":{self.port}/")

    def _words(self) -> Sequence[str | Path]:
        users = self.folder / "users"
        users.write_text("".join(f'"{name}" ""\n' for name in self._behind.users()))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "auth_type": "trust",
            "auth_file": str(users),
            "admin_users": "postgres",
            **self._settings,
        }
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        conf = self.folder / "pgbouncer.ini"
        conf.write_text(f"[databases]\n* = host=127.0.0.1 port={self._behind.port}\n[pgbouncer]\n{lines}")
        return as_other_user(self._program, conf)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
            return True
        return False


def find_pgbouncer() -> Path:
    """Return the path of the program."""
    if not has_pgbouncer():
        raise ServerMissing("pgbouncer is missing: apt-get install pgbouncer")
    return Path(shutil.which("pgbouncer", path=_folders()) or "")


def has_pgbouncer() -> bool:
    """Return whether the program is installed."""
    return shutil.which("pgbouncer", path=_folders()) is not None


def _folders() -> str:
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
