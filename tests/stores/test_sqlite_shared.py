"""A transaction that is cut off while its code runs statements ends with an error that states it, and the process continues."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.shared_connection import SharedConnection, SharedCursor

# In a separate process: without turns it would stop in a way that no time limit of a test can end.
SPEAKS = """
import sys
from pathlib import Path
from holdfast._system.clock import SystemRandomness
from holdfast.errors import HoldfastError
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import TransactionTurns, UserTransaction, blocking

path, turns = Path(sys.argv[1]), TransactionTurns()
spares = SpareConnection(path, use_apsw=False)
for _ in range(60):
    block = UserTransaction(path, idle=0.005, chance=SystemRandomness(), turns=turns, spares=spares, busy_limit=5.0)
    try:
        with blocking(block) as connection:
            while True:
                connection.execute("SELECT text FROM notes").fetchall()
    except HoldfastError as error:
        assert "was open for longer than" in str(error), error
print("ended")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "file.db")) as connection:
        connection.execute("CREATE TABLE notes (text)")
        connection.execute("INSERT INTO notes VALUES ('a'), ('b'), ('c')")
        connection.commit()
    return tmp_path / "file.db"


def test_a_transaction_that_is_cut_off_ends_while_its_code_runs_statements(file: Path) -> None:
    finished = subprocess.run([sys.executable, "-c", SPEAKS, str(file)], capture_output=True, text=True, timeout=50, check=False)
    assert (finished.stdout, finished.stderr) == ("ended\n", "")


def test_a_shared_connection_answers_as_any_other(file: Path) -> None:
    connection = driver.connect(file, use_apsw=False, is_judged=True)
    assert isinstance(connection, SharedConnection)
    cursor = connection.execute("SELECT text FROM notes")
    assert isinstance(cursor, SharedCursor)
    assert (next(cursor), cursor.fetchone(), cursor.fetchmany(5), cursor.fetchall()) == (("a",), ("b",), [("c",)], [])
    connection.executemany("INSERT INTO notes VALUES (?)", [("d",), ("e",)])
    connection.executescript("BEGIN; DELETE FROM notes")
    connection.rollback()
    with connection:
        connection.cursor().execute("DELETE FROM notes WHERE text = ?", ("a",))
    assert [text for (text,) in connection.execute("SELECT text FROM notes")] == ["b", "c", "d", "e"]
    cursor.close()
    assert type(connection.cursor(sqlite3.Cursor)) is sqlite3.Cursor
    connection.close()
