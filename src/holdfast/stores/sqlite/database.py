"""A file that holds jobs: its statements and the version of its schema."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import Json
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases import queries
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.database import Database
from holdfast.databases.sqlite.file_location import create_private, require_local_disk
from holdfast.databases.sqlite.sql import statements
from holdfast.errors import StoreDamaged
from holdfast.stores.sqlite import schema

Answer = TypeVar("Answer")

_FOLDER = Path(__file__).parent / "queries"
_MARK = "-- call\n"


class Query:
    """A file of ``queries``: the programs to set up on each connection, if any, and the statement to execute."""

    def __init__(self, name: str) -> None:
        programs, _, statement = queries.read(_FOLDER / f"{name}.sql").rpartition(_MARK)
        self.name, self.programs, self.statement = name, list(statements(programs)), statement


QUERIES = {path.stem: Query(path.stem) for path in sorted(_FOLDER.glob("*.sql"))}


class StoreDatabase(Database):
    """A file of jobs; the first statement opens the connection and creates or upgrades the schema."""

    damaged = StoreDamaged

    def __init__(
        self,
        path: Path,
        clock: Clock,
        chance: Randomness,
        process: ProcessIdentity,
        *,
        busy_limit: float,
        use_apsw: bool,
        flow_changes: FlowChanges | None = None,
    ) -> None:
        super().__init__(path, clock, chance, process, busy_limit=busy_limit, use_apsw=use_apsw)
        self._versions = (0, 0)
        self.flow_changes = flow_changes or FlowChanges()
        self.changes = list[FlowChange]()
        """What the open transaction does to whole workflows."""

    def atomically(self, name: str, action: Callable[[], Answer], *, end: str = "COMMIT") -> Answer:
        if self._open(name).in_transaction:
            return action()  # a rehearsal: what it writes is rolled back
        self.changes.clear()
        answer = super().atomically(name, action, end=end)
        if end == "COMMIT":
            self.flow_changes.add(self.changes)
        return answer

    def read(self, name: str, **values: Json) -> list[tuple[Json, ...]]:
        """Return all rows of a query; each query is also given ``:wall``, ``:monotonic``, ``:boot`` and ``:clock``."""
        query = QUERIES[name]
        return self._retry_while_busy(name, lambda: self._execute(name, query.statement, values).fetchall())

    def write(self, name: str, **values: Json) -> int:
        """Execute a statement and return how many rows it changed, not counting those of its triggers."""
        query = QUERIES[name]
        return self._retry_while_busy(name, lambda: self._commit(name, query.statement, values)).rowcount

    def write_changed(self, name: str, **values: Json) -> bool:
        """Execute a statement and return whether it or its triggers changed any row."""
        query = QUERIES[name]

        def execute() -> bool:
            before = self._open(name).total_changes
            self._commit(name, query.statement, values)
            return self._open(name).total_changes != before

        return self._retry_while_busy(name, execute)

    def migrate(self) -> tuple[int, int]:
        """Create or upgrade the schema; return its versions before and after."""
        if self._connection is None:
            self._open("migrate")
            return self._versions
        return schema.VERSION, schema.VERSION

    def version(self) -> int:
        """Return the version of the schema without creating or upgrading it."""
        if self._connection is not None:
            return schema.VERSION

        def look() -> int:
            connection = driver.connect(self.path, use_apsw=self.use_apsw)
            try:
                return schema.version_of(connection)
            finally:
                connection.close()

        require_local_disk(self.path)
        return self._begin("check", look)

    def _connect(self) -> driver.Connection:
        with suppress(OSError):  # the file exists and keeps its mode; or it cannot be created, and SQLite raises the reason
            create_private(Path(os.path.realpath(self.path)))  # SQLite gives its log and shared memory the same mode
        connection = driver.connect(self.path, use_apsw=self.use_apsw)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")
            schema.version_of(connection)  # before the first write: raises for a newer schema, or a file that is not a database
            connection.execute("PRAGMA journal_mode = WAL")
            self._versions = schema.migrate(connection)
            for query in QUERIES.values():
                for program in query.programs:
                    connection.execute(program)
        except BaseException:
            connection.close()
            raise
        return connection
