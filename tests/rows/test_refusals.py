"""What does not fit is refused with its remedy when a run begins, and by every worker at its start: nothing has been claimed then."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import App, Batch, ConfigurationError
from tests.rows.databases import PLAIN, Ground

WATCHER = "watcher"


def output(ground: Ground, **options: Any) -> str:
    """Return why a run that would claim all there is is refused; the table is as it was."""
    app, before = App("memory://"), contents(ground)
    rows = app.rows(options.pop("table", "pastes"), **{**PLAIN, "url": ground.url, "name": "pastes", **options})

    @rows.handler
    async def never(batch: Batch) -> None:
        raise AssertionError(batch.keys)

    with pytest.raises(ConfigurationError) as caught:
        app.run_due()
    app.close()
    assert contents(ground) == before
    assert all(problem.startswith("rows pastes: ") for problem in caught.value.problems)
    return caught.value.problems[0]


def contents(ground: Ground) -> list[Any]:
    """Read the contents of all tables that a story may have."""
    query = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    if ground.kind == "postgres":
        query = "SELECT schemaname || '.' || tablename FROM pg_tables WHERE tablename = 'pastes'"
    return [(name, ground.say(f"SELECT * FROM {name}")) for (name,) in ground.say(query)]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"table": "pasts"}, 'there is no table pasts in .*did you mean "pastes"'),
        ({"table": "shop.pastes"}, "public.pastes|write 'pastes'"),
        ({"table": "due"}, "due is a view.*: name the table beneath it"),
        ({"key": "idd"}, r'key\[0\]: pastes has no column "idd": did you mean "id"'),
        ({"status": "state"}, 'status: pastes has no column "state": did you mean "status"'),
        ({"claimed_at": "claimed"}, 'claimed_at: pastes has no column "claimed": did you mean "claimed_at"'),
        ({"key": "reason"}, "nothing makes key \"reason\" of pastes unique.*: use key='id'"),
        ({"where": "is_due AND"}, "syntax error|incomplete input"),
        ({"where": "is_due) OR (is_due"}, "syntax error"),
        ({"where": "is_due LIMIT 5"}, "syntax error"),
        ({"where": "is_duo"}, 'did you mean "is_due"'),
        ({"where": "id > $1"}, "Incorrect number of bindings|stands for a value, and none is given"),
        ({"order_by": "expires_at"}, "no.* expires_at.*correct the SQL|expires_at.*does not exist.*correct the SQL"),
        ({"claimed_at": "resets"}, "name one of a time, or `ALTER|too coarse .*name a text column"),
        ({"owner": "resets"}, 'owner: column "resets" is (?i:int).*: name one of type'),
    ],
)
def test_what_was_written_wrong(ground: Ground, options: dict[str, Any], remedy: str) -> None:
    ground.make(3)
    ground.say("CREATE VIEW due AS SELECT * FROM pastes")
    assert_says(output(ground, **options), remedy)


@pytest.mark.parametrize(
    ("columns", "more", "remedy"),
    [
        (
            "id int PRIMARY KEY",
            ", CHECK (status IN ('NEW', 'GONE'))",
            r"forbids in_progress='BUSY'.*or name values that it allows",
        ),
        ("id int PRIMARY KEY", ", CHECK ((status = 'BUSY') = (claimed_at IS NOT NULL))", "forbids done='GONE'"),
        ("id int UNIQUE", "", 'rows whose key "id" is NULL.*give them a value, then (`ALTER TABLE .* SET NOT NULL`|rebuild)'),
        ("id int NOT NULL", "", 'nothing makes key "id" of pastes unique.*`CREATE UNIQUE INDEX'),
    ],
)
def test_tables_whose_rows_could_not_be_distinguished_or_put_in_progress(
    ground: Ground, columns: str, more: str, remedy: str
) -> None:
    ground.make(key=columns, more=more)
    key = "NULL" if "UNIQUE" in columns else "1"
    if not more:
        ground.say(f"INSERT INTO pastes (id, status) VALUES ({key}, 'NEW')")
    assert_says(output(ground, owner="owner"), remedy)


@pytest.mark.parametrize(
    ("kind", "word", "remedy"),
    [
        ("int", 0, 'in_progress: column "status" is integer: .*"BUSY": `ALTER TABLE .*`, or name another value'),
        ("bool", False, 'in_progress: column "status" is boolean: .*`ALTER TABLE .*`, or name another value'),
        ("varchar(3)", "NEW", "in_progress: .*too short for 'BUSY': `ALTER TABLE .* TYPE text"),
        ("mood", "NEW", "in_progress: .*mood.*`ALTER TYPE mood ADD VALUE 'BUSY'`, or name another value"),
        ("word", "NEW", "in_progress: .*word.*`ALTER DOMAIN word DROP CONSTRAINT .*`, ADD another, or name another value"),
    ],
)
def test_a_status_that_its_column_does_not_take(postgres: Ground, kind: str, word: Any, remedy: str) -> None:
    postgres.say("CREATE TYPE mood AS ENUM ('NEW', 'OUT')")
    postgres.say("CREATE DOMAIN word AS text CHECK (value IN ('NEW', 'OUT'))")
    postgres.say(f"CREATE TABLE pastes (id int PRIMARY KEY, status {kind}, claimed_at timestamptz)")
    postgres.say("INSERT INTO pastes VALUES (1, %s)", word)
    done = {"int": 2, "bool": True}.get(kind, "OUT")
    assert_says(output(postgres, where="true", pending=word, done=done), remedy)


@pytest.mark.parametrize("kind", ["int[]", "jsonb", "bit(3)", "int4range", "xid8"])
def test_a_key_that_no_two_drivers_read_alike(postgres: Ground, kind: str) -> None:
    postgres.make(key=f"id {kind} PRIMARY KEY")
    assert_says(output(postgres), 'key: column "id" is .*name one of numbers, texts, uuids or times')


@pytest.mark.parametrize(
    ("grants", "options", "remedy"),
    [
        (["SELECT"], {}, r'may not UPDATE \("claimed_at", "status"\) in pastes: `GRANT .*`, or name another user'),
        (["UPDATE"], {}, "may not SELECT in pastes: `GRANT"),
        (["SELECT", "UPDATE"], {"delete": True}, "may not DELETE in pastes: `GRANT DELETE ON"),
        (["SELECT (id, status, claimed_at, ctid)", "UPDATE"], {"columns": ["id"]}, "where='is_due'.*`GRANT SELECT ON"),
    ],
)
def test_a_right_that_is_missing(watcher: Ground, grants: list[str], options: dict[str, Any], remedy: str) -> None:
    watcher.make(1)
    for grant in grants:
        watcher.say(f"GRANT {grant} ON pastes TO {WATCHER}")
    user, watcher.url = watcher.url, watcher.url.replace("postgres@", f"{WATCHER}@")
    assert_says(output(watcher, **options), remedy)
    watcher.url = user


@pytest.fixture
def watcher(postgres: Ground) -> Iterator[Ground]:
    """Make a database with a user who may do nothing yet."""
    postgres.say(f"CREATE ROLE {WATCHER} LOGIN")
    yield postgres
    postgres.say(f"DROP OWNED BY {WATCHER}")
    postgres.say(f"DROP ROLE {WATCHER}")


def test_a_table_that_only_another_schema_has(postgres: Ground) -> None:
    postgres.say("CREATE SCHEMA shop")
    postgres.say("CREATE TABLE shop.pastes (id int PRIMARY KEY, status text, claimed_at timestamptz)")
    postgres.say("INSERT INTO shop.pastes VALUES (1, 'NEW')")
    assert_says(output(postgres, where="true"), 'there is no table pastes in .*did you mean "shop.pastes"')


def assert_says(problem: str, remedy: str) -> None:
    """Require these words in the problem."""
    assert re.search(remedy, problem, re.DOTALL), problem
