"""The SQL that a message about a table names, pasted by the owner of the table, ends the trouble."""

import re
from typing import Any

import pytest

from holdfast._ports.table import Findings
from holdfast.errors import ConfigurationError
from tests.rows.databases import ENDING, Ground, watch

_SQL = re.compile(r"`([A-Z][^`]+)`")
_ALL = "GRANT SELECT, UPDATE ON pastes TO PUBLIC"
FORBIDDEN = "CHECK (status IN ('NEW', 'GONE'))"


def findings(ground: Ground, **options: Any) -> Findings:
    found: list[Findings] = []

    async def act() -> None:
        found.append(await ground.open(watch(**options)).inspect())

    ground.run(act)
    return found[0]


def paste(ground: Ground, *messages: str) -> None:
    """Run the statements of messages, as the owner."""
    statements = dict.fromkeys(found for message in messages for found in _SQL.findall(message))
    assert statements, messages
    for statement in statements:
        ground.say(statement)


def ends_by_its_sql(ground: Ground, options: dict[str, Any], after: dict[str, Any], user: str = "") -> None:
    reader = Ground(ground.kind, ground.place.replace("postgres@", f"{user}@")) if user else ground
    found = findings(reader, **options)
    assert found.problems or found.warnings
    paste(ground, *found.problems, *found.warnings)
    found = findings(reader, **options, **after)
    assert (found.problems, found.warnings) == ((), ())


@pytest.mark.parametrize(
    ("columns", "more", "options"),
    [
        ({"id": "int"}, "", {}),
        ({"id": "int NOT NULL UNIQUE"}, "CREATE PUBLICATION of_all FOR ALL TABLES", {}),
        ({"status": f"text {FORBIDDEN}"}, "", {}),
        ({"status": "mood"}, "", {}),
        ({"status": "word"}, "", {}),
        ({"status": "varchar(3)"}, "", {}),
        ({"status": "int"}, "", {}),
        ({"claimed_at": "text"}, "", {}),
        ({"claimed_at": "bigint"}, "", {}),
        ({"claimed_at": "date"}, "", {}),
        ({"claimed_at": "timestamp"}, "ALTER ROLE watcher SET timezone TO 'Europe/Berlin'", {}),
        ({"claimed_at": "timestamptz(0)"}, "", {}),
        ({"owner": "varchar(9)", "reason": "int", "resets": "text"}, "", {**ENDING, "owner": "owner"}),
        ({}, "CREATE TABLE heir () INHERITS (pastes)", {}),
        ({}, "REVOKE ALL ON pastes FROM PUBLIC", {}),
        ({}, "REVOKE USAGE ON SCHEMA public FROM PUBLIC", {"table": "public.pastes"}),
        ({}, "GRANT SELECT ON pastes TO PUBLIC", {"deletes": True}),
        ({}, "ALTER TABLE pastes ENABLE ROW LEVEL SECURITY", {}),
        ({}, "CREATE TABLE more (id int)", {"where": "id IN (SELECT id FROM more)"}),
        ({}, "REVOKE ALL ON FUNCTION chosen FROM PUBLIC", {"where": "chosen()"}),
    ],
)
def test_the_trouble_of_a_table_in_postgresql_ends(
    postgres: Ground, columns: dict[str, str], more: str, options: dict[str, Any]
) -> None:
    postgres.say("CREATE TYPE mood AS ENUM ('NEW', 'GONE')")
    postgres.say(f"CREATE DOMAIN word AS text {FORBIDDEN.replace('status', 'value')}")
    postgres.say("CREATE FUNCTION chosen() RETURNS bool LANGUAGE sql AS 'SELECT true'")
    postgres.say("DROP ROLE IF EXISTS watcher")
    postgres.say("CREATE ROLE watcher LOGIN")
    usual = {"id": "int PRIMARY KEY", "status": "text", "claimed_at": "timestamptz", "owner": "text", "resets": "int"}
    written = {**usual, "reason": "text", "is_due": "bool", **columns}
    postgres.say(f"CREATE TABLE pastes ({', '.join(f'{name} {kind}' for name, kind in written.items())})")
    postgres.say(_ALL)
    try:
        if more:
            postgres.say(more)
        after = {"owner": "claimed_by"} if "(0)" in written["claimed_at"] else {}
        ends_by_its_sql(postgres, options, after, user="watcher")
    finally:
        postgres.say("DROP OWNED BY watcher")
        postgres.say("DROP ROLE watcher")


def test_the_trouble_of_a_table_in_sqlite_ends(sqlite: Ground) -> None:
    sqlite.make(1, key="id int NOT NULL", stamp="INTEGER")
    ends_by_its_sql(sqlite, {}, {"owner": "claimed_by"})


def test_a_user_who_may_make_no_index_is_given_the_statements_for_the_owner(postgres: Ground) -> None:
    postgres.make(1)
    postgres.say("CREATE ROLE maker LOGIN")
    postgres.say(_ALL)
    maker = Ground("postgres", postgres.place.replace("postgres@", "maker@"))
    try:
        with pytest.raises(ConfigurationError, match="must be owner of table pastes: what `holdfast rows indexes pastes` lists"):
            maker.run(lambda: maker.open(watch()).create_indexes())
        for statement in findings(maker).indexes:
            postgres.say(statement)
        assert findings(maker).indexes == ()
    finally:
        postgres.say("DROP OWNED BY maker")
        postgres.say("DROP ROLE maker")


def test_the_indexes_of_a_table_with_partitions_are_made_by_hand(postgres: Ground) -> None:
    postgres.say(
        "CREATE TABLE pastes (id int PRIMARY KEY, status text, claimed_at timestamptz, is_due bool) PARTITION BY LIST (id)"
    )
    found = findings(postgres)
    assert "paste it into psql" in found.by_hand
    for statement in found.indexes:
        postgres.say(statement)
    assert findings(postgres).indexes == ()
