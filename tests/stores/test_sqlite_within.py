"""Jobs enqueued inside a caller's own transaction exist if and only if it commits, on any kind of connection."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec import structs

from holdfast import App
from holdfast._core.answers import Duplicate, EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._core.member import Member
from holdfast._core.requests import JobFilter
from holdfast._core.workflow import Edge, NewFlow, NewMember
from holdfast.errors import HoldfastError, SchemaTooNew, Unsupported
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.stores.support import new_job, sql, store_on, using
from tests.stores.within_cases import chained

CHANCE = FakeChance()
EVERYTHING = JobFilter(limit=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the file of an application whose tables have names like those of Holdfast."""
    path = tmp_path / "app.db"
    sql(path, "CREATE TABLE jobs (id TEXT PRIMARY KEY, state TEXT)")
    return path


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return store_on(path)


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def enqueue(store: SqliteStore, connection: Any, *jobs: NewJob) -> EnqueueAnswer:
    return store.enqueue_within(connection, CHANCE.uuid4(), jobs)


def waiting(path: Path) -> int:
    """Return how many jobs wait, as another connection sees it."""
    found = sql(path, "SELECT 1 FROM sqlite_schema WHERE name = 'holdfast_jobs'")
    return sql(path, "SELECT count(*) FROM holdfast_jobs")[0][0] if found else 0


def new(**values: Any) -> NewJob:
    return structs.replace(new_job(CHANCE), **values)


def test_rows_and_jobs_commit_together(path: Path, store: SqliteStore, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
    assert enqueue(store, connection, new(), new(payload=b"x" * 2000)) == EnqueueAnswer()
    assert (waiting(path), sql(path, "SELECT * FROM jobs")) == (0, [])
    connection.commit()
    assert (waiting(path), sql(path, "SELECT * FROM jobs")) == (2, [("mine", "new")])
    assert {len(row.payload) for row in using(store, lambda store: store.list(EVERYTHING))} == {2, 2000}


def test_rows_and_jobs_are_rolled_back_together_and_the_connection_stays_usable(
    path: Path, store: SqliteStore, connection: sqlite3.Connection
) -> None:
    for _ in range(2):
        connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
        enqueue(store, connection, new())
        connection.rollback()
        assert (waiting(path), sql(path, "SELECT * FROM jobs")) == (0, [])
    enqueue(store, connection, new())
    connection.commit()
    assert waiting(path) == 1


@pytest.mark.parametrize("level", ["", "IMMEDIATE", "EXCLUSIVE"])
def test_a_connection_that_begins_by_itself_does_so_for_jobs_too(path: Path, store: SqliteStore, level: str) -> None:
    using(store, lambda store: store.migrate())
    for end, count in (("rollback", 0), ("commit", 1)):
        with closing(sqlite3.connect(path, isolation_level=level)) as connection:
            enqueue(store, connection, new())
            assert connection.in_transaction
            getattr(connection, end)()
        assert waiting(path) == count


def test_without_a_transaction_all_jobs_are_there_at_once_or_none(path: Path, store: SqliteStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        enqueue(store, connection, new(), new())
        assert (connection.in_transaction, waiting(path)) == (False, 2)
        twin = new()
        with pytest.raises(HoldfastError, match="its own id"):
            enqueue(store, connection, new(), twin, twin)
        assert (connection.in_transaction, waiting(path)) == (False, 2)
        connection.execute("BEGIN")
        enqueue(store, connection, new())
        connection.execute("ROLLBACK")
        assert waiting(path) == 2


def test_a_refused_id_leaves_the_callers_transaction_as_it_was(
    path: Path, store: SqliteStore, connection: sqlite3.Connection
) -> None:
    job = new()
    connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
    enqueue(store, connection, job)
    call = CHANCE.uuid4()
    for _ in range(2):  # a refused call leaves no receipt
        with pytest.raises(HoldfastError, match="its own id"):
            store.enqueue_within(connection, call, [new(), job])
    connection.commit()
    assert (waiting(path), sql(path, "SELECT id FROM jobs")) == (1, [("mine",)])


def test_a_taken_key_is_answered_and_aborts_nothing(path: Path, store: SqliteStore, connection: sqlite3.Connection) -> None:
    first, same, other = new(unique_key="k"), new(unique_key="k"), new(unique_key="k", payload=b"[]")
    connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
    assert enqueue(store, connection, first, same) == EnqueueAnswer({same.id: Duplicate(first.id, is_same=True)})
    assert enqueue(store, connection, new(), other).is_refused
    connection.commit()
    assert (waiting(path), sql(path, "SELECT id FROM jobs")) == (1, [("mine",)])


def test_a_repeated_call_inserts_nothing_on_any_connection(
    path: Path, store: SqliteStore, connection: sqlite3.Connection
) -> None:
    call, job = CHANCE.uuid4(), new()
    for _ in range(2):
        assert store.enqueue_within(connection, call, [job]) == EnqueueAnswer()
    connection.commit()
    assert using(store, lambda store: store.enqueue(call, [job])) == EnqueueAnswer()
    assert waiting(path) == 1


def test_nothing_of_the_callers_connection_changes(path: Path, store: SqliteStore, connection: sqlite3.Connection) -> None:
    def rows(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
        return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}

    connection.row_factory, connection.text_factory = rows, bytes
    before = connection.total_changes
    job = new(unique_key="k")
    enqueue(store, connection, job)
    assert enqueue(store, connection, new(unique_key="k")).duplicates
    assert connection.total_changes > before
    assert (connection.row_factory, connection.text_factory) == (rows, bytes)
    assert connection.execute("SELECT count(*) AS number FROM sqlite_temp_schema").fetchall() == [{"number": 0}]
    connection.commit()
    connection.execute("ALTER TABLE jobs RENAME TO works")
    assert waiting(path) == 1


def test_a_store_that_is_only_attached_is_refused_because_a_crash_could_keep_one_commit_of_two(
    tmp_path: Path, path: Path, store: SqliteStore
) -> None:
    main = tmp_path / "main.db"
    using(store_on(main), lambda store: store.migrate())  # a separate store, with tables of the same names
    with closing(sqlite3.connect(main)) as connection:
        connection.execute('ATTACH ? AS "the app\'s"', (str(path),))
        with pytest.raises(Unsupported, match=r'attached as "the app\'s".*Connect to .*app\.db, and attach the other file'):
            enqueue(store, connection, new())
        assert not connection.in_transaction
    assert (waiting(path), waiting(main)) == (0, 0)


def test_jobs_go_to_the_main_file_of_the_connection_and_to_no_attached_one(
    tmp_path: Path, path: Path, store: SqliteStore
) -> None:
    other = tmp_path / "other.db"
    using(store_on(other), lambda store: store.migrate())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("CREATE TEMP TABLE holdfast_jobs (text)")
        enqueue(store, connection, new(), new(payload=b"x" * 2000, unique_key="k"))
        connection.commit()
        assert enqueue(store, connection, new(unique_key="k")).is_refused
        connection.commit()
    assert (waiting(path), waiting(other)) == (2, 0)


def test_a_schema_made_in_the_callers_transaction_is_whole(
    path: Path, store: SqliteStore, connection: sqlite3.Connection
) -> None:
    connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
    enqueue(store, connection, new())
    connection.commit()
    assert using(store, lambda store: store.migrate()) == (schema.VERSION, schema.VERSION)
    fresh = path.with_name("fresh.db")
    using(store_on(fresh), lambda store: store.migrate())
    question = "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'holdfast~_%' ESCAPE '~' ORDER BY name"
    assert [name for name, _ in sql(path, question)] == [name for name, _ in sql(fresh, question)]


def test_a_newer_schema_is_refused(path: Path, store: SqliteStore, connection: sqlite3.Connection) -> None:
    using(store, lambda store: store.migrate())
    sql(path, "UPDATE holdfast_schema SET version = version + 1")
    with pytest.raises(SchemaTooNew, match="upgrade holdfast"):
        enqueue(store, connection, new())


def test_a_connection_to_another_file_is_refused(tmp_path: Path, path: Path, store: SqliteStore) -> None:
    for other in (tmp_path / "other.db", ":memory:"):
        with closing(sqlite3.connect(other)) as connection, pytest.raises(Unsupported, match=r"app\.db.*only in one file"):
            enqueue(store, connection, new())


def test_the_same_file_by_another_path_is_the_same_file(tmp_path: Path, path: Path, store: SqliteStore) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(sqlite3.connect(link)) as connection:
        enqueue(store, connection, new())
        connection.commit()
    assert waiting(path) == 1


def test_one_process_uses_one_library(path: Path, store: SqliteStore, connection: sqlite3.Connection) -> None:
    of_apsw = SqliteStore(path, clock=FakeClock(), chance=FakeChance(), process=PROCESS, use_apsw=True)
    with pytest.raises(Unsupported, match="uses apsw here: one process must not"):
        enqueue(of_apsw, connection, new())
    other = apsw.Connection(str(path.with_name("none.db")))
    with closing(other), pytest.raises(Unsupported, match="set HOLDFAST_SQLITE=apsw"):
        enqueue(store, other, new())


def test_a_value_that_is_not_a_connection_is_refused(store: SqliteStore) -> None:
    for connection in (None, object(), "app.db"):
        with pytest.raises(Unsupported, match=r"needs a sqlite3\.Connection"):
            enqueue(store, connection, new())


def test_a_connection_of_apsw_does_the_same(path: Path) -> None:
    store = SqliteStore(path, clock=FakeClock(), chance=FakeChance(), process=PROCESS, use_apsw=True)
    using(store, lambda store: store.migrate())
    with closing(apsw.Connection(str(path))) as connection:
        connection.row_trace = lambda cursor, row: {"row": row}
        job = new(unique_key="k")
        with connection:
            connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
            assert enqueue(store, connection, job) == EnqueueAnswer()
        same = new(unique_key="k")
        assert enqueue(store, connection, same) == EnqueueAnswer({same.id: Duplicate(job.id, is_same=True)})
        with pytest.raises(HoldfastError, match="its own id"):
            enqueue(store, connection, structs.replace(job, unique_key=None))
        connection.execute("BEGIN")
        enqueue(store, connection, new())
        connection.execute("ROLLBACK")
        assert connection.row_trace is not None
        assert connection.execute("SELECT count(*) FROM holdfast_jobs").fetchall() == [{"row": (1,)}]


def test_converters_of_the_caller_are_not_asked(path: Path, store: SqliteStore) -> None:
    for name in ("INTEGER", "TEXT", "BLOB"):
        sqlite3.register_converter(name, lambda value: 1 / 0)
    try:
        with closing(sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES)) as connection:
            for _ in range(2):
                enqueue(store, connection, new(), new(unique_key="k"))
            connection.commit()
    finally:
        for name in ("INTEGER", "TEXT", "BLOB"):
            del sqlite3.converters[name]
    assert waiting(path) == 3


def test_a_workflow_is_written_by_a_connection_that_converts_what_it_reads(path: Path, connection: sqlite3.Connection) -> None:
    app = App(f"sqlite:///{path}")
    release = chained(app)
    connection.text_factory, connection.row_factory = bytes, sqlite3.Row
    connection.execute("INSERT INTO jobs VALUES ('mine', 'new')")
    handle = release.options(within=connection, unique_key="k").enqueue("a")
    assert waiting(path) == 0
    connection.commit()
    assert [node.state.value for node in handle.nodes()] == ["available", "blocked", "available"]
    assert not release.options(within=connection, unique_key="k").enqueue("a").created
    connection.rollback()
    assert waiting(path) == 4


def test_a_copy_of_a_call_that_wrote_a_workflow_writes_nothing(
    path: Path, store: SqliteStore, connection: sqlite3.Connection
) -> None:
    root, node = new(task="w"), new()
    member, gate = (Member(flow=root.id, node=name, is_gate=name == "w") for name in ("build", "w"))
    flow = NewFlow(root=NewMember(root, gate), members=(NewMember(node, member),), edges=(Edge(node.id, root.id),), deadline=5.0)
    call = CHANCE.uuid4()
    for _ in range(2):
        assert store.enqueue_flow_within(connection, call, flow) == EnqueueAnswer()
    connection.commit()
    assert waiting(path) == 2
    found = using(store, lambda store: store.flow(root.id))
    assert found is not None
    assert found.flow.deadline_at is not None
