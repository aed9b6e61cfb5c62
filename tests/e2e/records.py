"""The record of a fleet's history, in a form that the same checker reads for every kind of store."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from uuid import UUID

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Token
from proof.checker import history_sqlite
from proof.checker.history import History
from proof.checker.process_log import ProcessEvent, read_from
from proof.checker.process_log import tell as tell_deed

PROCESS_LOG = "process_log"
COMMITS = "commits"
"""The file with the commits of a bucket."""
REFUSED = "write.refused"
"""The event of a zombie that tried to write."""
UP = "process.up"
"""The event of a worker that has begun its first job, for tests that wait for it."""


class Record(Protocol):
    """A history in the making."""

    def watch(self) -> None:
        """Record every change of a row from now on; the schema must exist."""
        ...

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        """Record something that happened to the caller."""
        ...

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        """Return the whole history, with these deeds in it."""
        ...


class SqliteRecord:
    """A record in the jobs' file, in one order with its commits; deeds outside of the file are in a separate one."""

    def __init__(self, database: Path, folder: Path) -> None:
        self._database, self._file = database, folder / PROCESS_LOG

    def watch(self) -> None:
        history_sqlite.watch(self._database)

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        history_sqlite.tell(self._database, what, job, token, process)

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        return history_sqlite.read(self._database, [*deeds, *read_from(self._file)[0]])


class PostgresRecord:
    """A record of rows in the database, and of events in a file, because processes write events while the server is away too.

    The reader is imported when it is needed: the workers of all tests import this file, and none of them uses the reader.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._file = url, folder / PROCESS_LOG

    def watch(self) -> None:
        from proof.checker import history_postgres

        history_postgres.watch(self._url)

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        tell_deed(self._file, ProcessEvent(time.time(), what, process, job, token))

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        from proof.checker import history_postgres

        return history_postgres.read(self._url, [*deeds, *read_from(self._file)[0]])


class BucketRecord:
    """A record of commits by the server of the bucket, and of events in a file, because processes write them during an outage too."""

    def __init__(self, folder: Path) -> None:
        self._commits, self._file = folder / COMMITS, folder / PROCESS_LOG

    def watch(self) -> None:
        """Do nothing: the server writes down each commit from the first one on."""

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        tell_deed(self._file, ProcessEvent(time.time(), what, process, job, token))

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        from proof.checker import history_objects

        return history_objects.read(self._commits, [*deeds, *read_from(self._file)[0]])


class MongoRecord:
    """A record in the change stream of the set, and of events in a file, because processes write them while the set has no primary too."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._file = url, folder / PROCESS_LOG

    def watch(self) -> None:
        from proof.checker import history_mongo

        history_mongo.watch(self._url)

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        tell_deed(self._file, ProcessEvent(time.time(), what, process, job, token))

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        from proof.checker import history_mongo

        return history_mongo.read(self._url, [*deeds, *read_from(self._file)[0]])


def record_of(url: str, folder: Path) -> Record:
    """Return the record for that kind of store."""
    if url.startswith("sqlite:"):
        return SqliteRecord(Path(url.removeprefix("sqlite:///")), folder)
    if url.startswith("mongodb:"):
        return MongoRecord(url, folder)
    return PostgresRecord(url, folder) if url.startswith("postgres") else BucketRecord(folder)
