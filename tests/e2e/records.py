"""Where the history of a fleet is written down, so that the same checker reads it for every kind of store."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from uuid import UUID

from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Token
from holdfast.testing import history_sqlite
from holdfast.testing.history import History
from holdfast.testing.process_log import ProcessEvent, read_from
from holdfast.testing.process_log import tell as tell_deed

SAID = "said"
REFUSED = "write.refused"
"""Written by a zombie that tried to write."""
UP = "process.up"
"""Written by a worker that has begun its first job, where a test waits for it."""


class Record(Protocol):
    """A history in the making."""

    def watch(self) -> None:
        """From now on all that happens to rows is written down; the schema must be there."""
        ...

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        """Something that happened to the caller."""
        ...

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        """All of it, these deeds among it."""
        ...


class SqliteRecord:
    """All in the jobs' file, in one order with its commits; deeds outside of it are in a separate file."""

    def __init__(self, database: Path, folder: Path) -> None:
        self._database, self._said = database, folder / SAID

    def watch(self) -> None:
        history_sqlite.watch(self._database)

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        history_sqlite.tell(self._database, what, job, token, process)

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        return history_sqlite.read(self._database, [*deeds, *read_from(self._said)[0]])


class PostgresRecord:
    """Rows in the database; what processes say in a file, because they say it while the server is away too.

    The reader is imported when it is needed: the workers of all tests import this file, and none of them needs it.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._said = url, folder / SAID

    def watch(self) -> None:
        from proof.checker import history_postgres

        history_postgres.watch(self._url)

    def tell(self, what: str, job: UUID, token: Token | None, process: ProcessIdentity) -> None:
        tell_deed(self._said, ProcessEvent(time.time(), what, process, job, token))

    def read(self, deeds: Iterable[ProcessEvent] = ()) -> History:
        from proof.checker import history_postgres

        return history_postgres.read(self._url, [*deeds, *read_from(self._said)[0]])


def record_of(url: str, folder: Path) -> Record:
    """The one that fits the store."""
    if url.startswith("sqlite:"):
        return SqliteRecord(Path(url.removeprefix("sqlite:///")), folder)
    return PostgresRecord(url, folder)
