"""``holdfast rows``: how watched tables stand, taking rows back, and the indexes they lack."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast._core.table_spec import TableSpec
from holdfast._ports.table import Findings
from holdfast._system.clock import SystemClock
from proof.stores.memory_table import MemoryTable
from tests.cli.support import answer, run

WATCHED = """
def watch(table, **more):
    return app.rows(table, key="id", status="status", pending="new", in_progress="busy", done="gone", claimed_at="since",
                    where="true", failed="bad", resets="resets", max_resets=0, stale_after="1ms", **more)
watch("pastes")
watch("shop.orders", owner="holder", name="orders")
"""

WATCHED_FILE = """
from holdfast import App
app = App("{url}")
app.rows("mails", key="id", status="status", pending="new", in_progress="busy", done="sent", claimed_at="since", where="true")
"""


@pytest.fixture
def tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryTable]:
    """Make tables by their names; of pastes two rows of five are stuck, of orders none."""
    found: dict[str, MemoryTable] = {}

    def open_table(url: str, watch: TableSpec) -> MemoryTable:
        return found[watch.name]

    monkeypatch.setattr("holdfast.app.open_table", open_table)
    shop = folder / "shop.py"
    shop.write_text(shop.read_text() + WATCHED)
    sys.path.insert(0, str(folder))
    app: App = __import__("shop").app
    for each in app.watches.values():
        rows = [{"id": number} for number in range(1, 6)]
        found[each.name] = MemoryTable(each.settings.watch, SystemClock(), rows)
    asyncio.run(found["pastes"].claim("", 2))
    while app.watches["pastes"].states().stuck < 2:
        pass
    return found


def test_list_shows_the_rows_of_each_table_by_status(tables: dict[str, MemoryTable]) -> None:
    pastes, orders = answer("rows", "list", "--app", "shop")
    assert (pastes["name"], pastes["table"], pastes["task"]) == ("pastes", "pastes", "rows.pastes")
    assert (pastes["rows"], pastes["due"], pastes["stuck"]) == ({"busy": 2, "new": 3}, 3, 2)
    assert pastes["oldest"] > 0.001
    assert [(each["owner"], each["rows"]) for each in pastes["holders"]] == [("", 2)]
    assert (orders["table"], orders["rows"], orders["oldest"], orders["holders"]) == ("shop.orders", {"new": 5}, None, [])
    lines = run("rows", "list", "pastes", "--app", "shop").stdout.splitlines()
    assert lines[0].split("\t") == ["name", "table", "due", "stuck", "oldest", "rows", "holders"]
    assert [lines[1].split("\t")[place] for place in (0, 2, 3, 5, 6)] == ["pastes", "3", "2", "busy 2, new 3", "no owner 2"]
    assert lines[1].split("\t")[4].endswith("s")
    assert len(lines) == 2


def test_reset_takes_stuck_rows_back_and_returns_what_became_of_them(tables: dict[str, MemoryTable]) -> None:
    (dry, other) = answer("rows", "reset", "--dry-run", "--app", "shop")
    assert (dry["stuck"], dry["reset"], other["stuck"]) == (2, [], 0)
    asked = run("rows", "reset", "--app", "shop")
    assert (asked.exit_code, "--yes" in asked.stderr) == (2, True)
    assert [row["status"] for row in tables["pastes"].rows.values()] == ["busy"] * 2 + ["new"] * 3
    done = run("rows", "reset", "--yes", "--app", "shop", "--reason", "a worker hung")
    assert done.stdout.splitlines() == ["name\tstuck\treset\tfailed", "pastes\t2\t2\t2", "orders\t0\t0\t0"]
    recorded = [
        (each["selector"], each["count"], each["reason"]) for each in answer("audit", "--app", "shop", "--action", "reset")
    ]
    assert recorded == [('{"rows":"orders"}', 0, "a worker hung"), ('{"rows":"pastes"}', 2, "a worker hung")]
    assert [row["status"] for row in tables["pastes"].rows.values()] == ["bad"] * 2 + ["new"] * 3


def test_reset_as_json_names_the_keys(tables: dict[str, MemoryTable]) -> None:
    (pastes,) = answer("rows", "reset", "pastes", "--yes", "--app", "shop")
    assert sorted(each["key"] for each in pastes["reset"]) == [[1], [2]]
    assert {each["to"] for each in pastes["reset"]} == {"fail"}


def test_indexes_are_shown_and_created_on_request(tables: dict[str, MemoryTable]) -> None:
    tables["orders"].findings = Findings(indexes=("CREATE INDEX a", "CREATE INDEX b"))
    assert run("rows", "indexes", "--app", "shop").stdout.splitlines() == [
        "name\tmissing",
        "orders\tCREATE INDEX a",
        "orders\tCREATE INDEX b",
    ]
    assert len(tables["orders"].findings.indexes) == 2
    (created,) = answer("rows", "indexes", "orders", "--create", "--app", "shop")
    assert created == {"name": "orders", "indexes": ["CREATE INDEX a", "CREATE INDEX b"], "created": True}
    assert run("rows", "indexes", "--app", "shop").stdout.splitlines() == ["name\tmissing"]


def test_a_table_that_cannot_be_looked_at_does_not_pass_for_one_that_lacks_no_index(tables: dict[str, MemoryTable]) -> None:
    tables["pastes"].findings = Findings(problems=("there is no table pastes",))
    done = run("rows", "indexes", "--app", "shop")
    assert (done.exit_code, done.stdout, done.stderr.strip()) == (2, "", "error: rows pastes: there is no table pastes")


@pytest.fixture
def place(folder: Path) -> Path:
    """Make a file with a row in progress that has no stamp, and an App in ``post.py`` that watches it without a handler."""
    place = folder / "loop.db"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("CREATE TABLE mails (id INTEGER PRIMARY KEY, status TEXT, since TEXT)")
        connection.execute("INSERT INTO mails VALUES (1, 'busy', NULL)")
    (folder / "post.py").write_text(WATCHED_FILE.format(url=f"sqlite:///{place}"))
    return place


def test_check_asks_for_a_handler_of_rows_and_not_for_a_task(place: Path) -> None:
    findings = [(each["name"], each["message"]) for each in answer("check", "post")]
    assert "tasks" not in dict(findings)
    assert any(name == "rows" and "has no handler" in message for name, message in findings)


def test_reset_stamps_unstamped_rows_so_that_their_time_runs(place: Path) -> None:
    done = run("rows", "reset", "--yes", "--app", "post")
    assert done.stdout.splitlines() == ["name\tstuck\treset\tfailed", "mails\t0\t0\t0"]
    with closing(sqlite3.connect(place)) as connection:
        ((status, since),) = connection.execute("SELECT status, since FROM mails")
    assert (status, since is None) == ("busy", False)


@pytest.mark.parametrize("verb", ["list", "reset", "indexes"])
def test_what_is_not_watched_is_named(tables: dict[str, MemoryTable], verb: str) -> None:
    done = run("rows", verb, "mails", "--app", "shop")
    assert (done.exit_code, done.stderr.strip()) == (
        2,
        "error: rows mails: not watched by this App; there are: pastes, orders",
    )


def test_an_app_is_needed(tables: dict[str, MemoryTable]) -> None:
    done = run("rows", "list")
    assert (done.exit_code, "--app module:app or set HOLDFAST_APP" in done.stderr) == (2, True)


def test_an_app_that_watches_over_nothing_has_nothing_to_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_APP", "shop")
    found: Any = answer("rows", "list")
    assert found == []
