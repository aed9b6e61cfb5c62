"""One process must not open a file by both SQLite libraries: each would drop the locks of the other."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.library_guard import path_of
from holdfast.errors import ConfigurationError, Unsupported


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "my jobs.db"


def names_of(path: Path) -> list[object]:
    link = path.with_name("link.db")
    link.symlink_to(path)
    return [path, str(path), os.fsencode(path), link, os.path.relpath(path), f"file:{path}?mode=ro", path.as_uri()]


def test_a_file_that_apsw_has_open_is_refused_to_sqlite3_by_each_of_its_names(path: Path) -> None:
    with closing(driver.connect(path, use_apsw=True)) as connection:
        connection.execute("CREATE TABLE rows (id)")
        for name in names_of(path):
            with pytest.raises(Unsupported, match="unset HOLDFAST_SQLITE"):
                sqlite3.connect(name, uri=str(name).startswith("file:"))  # type: ignore[call-overload]
        with closing(driver.connect(path, use_apsw=True)) as second:
            second.execute("INSERT INTO rows VALUES (1)")


def test_other_files_and_closed_ones_are_free(path: Path) -> None:
    with closing(driver.connect(path, use_apsw=True)) as connection:
        sqlite3.connect(path.with_name("other.db")).close()
        sqlite3.connect(":memory:").close()
        with closing(driver.connect(path, use_apsw=True)) as second:
            second.execute("SELECT 1")
        with pytest.raises(Unsupported):
            sqlite3.connect(path)
        connection.execute("SELECT 1")
    sqlite3.connect(path).close()


def test_a_connection_that_was_forgotten_is_not_open(path: Path) -> None:
    driver.connect(path, use_apsw=True)
    sqlite3.connect(path).close()


def test_a_file_that_sqlite3_has_open_is_refused_to_apsw(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE rows (id)")
        with pytest.raises(ConfigurationError, match="other code of this process has the file open"):
            driver.connect(path, use_apsw=True)
    driver.connect(path, use_apsw=True).close()


def test_a_connection_of_apsw_of_the_caller_is_not_refused(path: Path) -> None:
    with closing(apsw.Connection(str(path))), closing(driver.connect(path, use_apsw=True)) as connection:
        connection.execute("CREATE TABLE rows (id)")


def test_a_forked_child_may_choose_its_library(path: Path) -> None:
    with closing(driver.connect(path, use_apsw=True)):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                driver.connect(path, use_apsw=True).close()
                sqlite3.connect(path).close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(Unsupported):
            sqlite3.connect(path)


def test_uris_and_values_of_other_types_are_read() -> None:
    assert path_of(object()) == ""
    assert path_of("file://localhost/srv/a%20b.db?mode=ro#x") == "/srv/a b.db"
    assert path_of("file:jobs.db") == "jobs.db"
