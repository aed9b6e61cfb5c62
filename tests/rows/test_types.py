"""Keys of one column or several, of every type, in names of every spelling; statuses that are not strings."""

import asyncio
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Table
from tests.rows.databases import OWNED, Ground, watch

ONE = "00000000-0000-7000-8000-000000000001"


async def through_everything(table: Table, columns: tuple[str, ...], *, count: int = 2) -> None:
    """Claim, release, reset and finish rows, by the keys that were read."""
    first = await table.claim("one", 9)
    keys = [tuple(row[name] for name in columns) for row in first.rows]
    assert len(keys) == len(set(keys)) == count
    assert sorted(await table.move(first.fence, keys[:1], RowOutcome.RETRY)) == keys[:1]
    assert await table.release(first.fence) == count - 1
    second = await table.claim("two", 9)
    assert set(await table.move(second.fence, keys[1:], RowOutcome.DONE)) == set(keys[1:])
    async with table.transaction(second.fence) as tx:
        assert await tx.move(keys, RowOutcome.DONE) == keys[:1]


async def through_threads(table: Table, columns: tuple[str, ...]) -> None:
    """Send values as psycopg and the blocking side do."""
    claimed = await table.claim("three", 9)
    keys = [tuple(row[name] for name in columns) for row in claimed.rows]

    def move() -> None:
        with table.blocking_transaction(claimed.fence) as tx:
            assert set(tx.move(keys, RowOutcome.RETRY)) == set(keys)

    await asyncio.to_thread(move)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uuid", [UUID(ONE), UUID(ONE[:-1] + "2")]),
        ("text", ["a'b", 'c"\\d']),
        ("varchar(5)", ["a", "b"]),
        ("char(3)", ["a", "b"]),
        ("smallint", [1, 2]),
        ("bigint", [2**62, -5]),
        ("numeric(30, 2)", ["1.50", "12345678901234567890.25"]),
        ("mood", ["happy", "so so"]),
        ("short", ["x", "y"]),
        ("timestamptz", ["2024-01-02 03:04:05.000006+00", "2024-01-02 03:04:05.000007+00"]),
        ("date", ["2024-01-02", "2024-01-03"]),
        ("bytea", [b"\x00\x01", b"\xff"]),
        ("bool", [True, False]),
        ("inet", ["10.0.0.1", "::1"]),
        ("interval", ["1 day 02:00:00", "3 mons"]),
    ],
)
def test_keys_of_any_type_of_postgresql(postgres: Ground, kind: str, values: list[Any]) -> None:
    postgres.say("CREATE TYPE mood AS ENUM ('happy', 'so so')")
    postgres.say("CREATE DOMAIN short AS text CHECK (length(value) < 9)")
    postgres.make(key=f"id {kind} PRIMARY KEY")
    for value in values:
        postgres.say("INSERT INTO pastes (id, status) VALUES (%s, 'NEW')", value)

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_threads(table, ("id",))
        await through_everything(table, ("id",))

    postgres.play(act, order_by="id")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("TEXT", ["a'b", 'c"d']),
        ("TEXT", ["é\\u0000", "n\0l"]),
        ("BLOB", [b"\x00\x01", b"\xff"]),
        ("REAL", [0.1, 2.5]),
        ("INTEGER", [2**62, -5]),
        ("", ["1", 1]),
    ],
)
def test_keys_of_any_type_of_sqlite(sqlite: Ground, kind: str, values: list[Any]) -> None:
    sqlite.make(key=f"id {kind} PRIMARY KEY")
    for value in values:
        sqlite.say("INSERT INTO pastes (id, status) VALUES (%s, 'NEW')", value)

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_threads(table, ("id",))
        await through_everything(table, ("id",))

    sqlite.play(act, order_by="id")


def test_keys_of_several_columns(ground: Ground) -> None:
    ground.make(key="id int, site text, at text", more=", PRIMARY KEY (site, id, at)")
    for id, site in ((1, "a"), (1, "b"), (2, "a")):
        ground.say("INSERT INTO pastes (id, site, at, status) VALUES (%s, %s, 'x', 'NEW')", id, site)

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_threads(table, ("site", "id", "at"))
        await through_everything(table, ("site", "id", "at"), count=3)
        ground.say("UPDATE pastes SET status = 'NEW'")
        await table.claim("me", 2)
        ground.age()
        assert sorted(each.key for each in await table.reset(9)) == [("a", 1, "x"), ("a", 2, "x")]

    ground.play(act, key=("site", "id", "at"), order_by="site, id")


def test_a_table_without_row_numbers(sqlite: Ground) -> None:
    sqlite.say(
        "CREATE TABLE pastes (id TEXT, part INT, status TEXT NOT NULL, claimed_at TEXT, PRIMARY KEY (id, part)) WITHOUT ROWID, STRICT"
    )
    sqlite.say("INSERT INTO pastes VALUES ('a', 1, 'NEW', NULL), ('a', 2, 'NEW', NULL)")

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_everything(table, ("id", "part"))

    sqlite.play(act, key=("id", "part"), where="true", order_by="part")


def test_a_table_with_partitions(postgres: Ground) -> None:
    postgres.say(
        "CREATE TABLE pastes (id int, day date, status text NOT NULL, claimed_at timestamptz, is_due bool DEFAULT true, "
        "PRIMARY KEY (id, day)) PARTITION BY RANGE (day)"
    )
    for year in (2024, 2025):  # the rows have the same place, each in its partition
        postgres.say(f"CREATE TABLE pastes_{year} PARTITION OF pastes FOR VALUES FROM ('{year}-01-01') TO ('{year + 1}-01-01')")
        postgres.say(f"INSERT INTO pastes VALUES (1, '{year}-05-05', 'NEW')")

    async def act(table: Table) -> None:
        findings = await table.inspect()
        assert findings.problems == ()
        assert all(text.startswith("CREATE INDEX IF NOT EXISTS") for text in findings.indexes)
        assert [row["day"].year for row in (await table.claim("", 1)).rows] == [2024]
        assert sorted(status for (status,) in postgres.say("SELECT status FROM pastes")) == ["BUSY", "NEW"]
        await table.claim("", 1)
        postgres.age(where="day < '2025-01-01'")
        assert [each.key[1].year for each in await table.reset(9)] == [2024]
        postgres.say("UPDATE pastes SET status = 'GONE', claimed_at = coalesce(claimed_at, now() - interval '2 hours')")
        assert await table.prune(9) == 1
        assert postgres.say("SELECT count(*) FROM pastes") == [(1,)]
        postgres.say("INSERT INTO pastes VALUES (2, '2024-05-05', 'NEW')")
        postgres.say("UPDATE pastes SET status = 'NEW'")
        await through_everything(table, ("id", "day"))

    postgres.play(act, key=("id", "day"), order_by="day", retention="1h")


def test_names_of_any_spelling(ground: Ground) -> None:
    odd = {"table": 'Select "me"', "id": "Order", "status": 'the "status"; --', "stamp": "claimed At", "owner": "wer läuft?"}
    named = {what: '"' + name.replace('"', '""') + '"' for what, name in odd.items()}
    ground.say(
        f"CREATE TABLE {named['table']} ({named['id']} int PRIMARY KEY, {named['status']} text NOT NULL, "
        f"{named['stamp']} {{stamp}}, {named['owner']} text)"
    )
    ground.say(f"INSERT INTO {named['table']} VALUES (1, 'it''s \\ \"new\"', NULL, NULL), (2, 'it''s \\ \"new\"', NULL, NULL)")
    odd_watch = watch(
        odd["table"],
        key=odd["id"],
        status=odd["status"],
        claimed_at=odd["stamp"],
        owner=odd["owner"],
        pending='it\'s \\ "new"',
        where="true",
        order_by=named["id"],
    )

    async def act() -> None:
        table = ground.open(odd_watch)
        assert (await table.inspect()).problems == ()
        assert len(await table.create_indexes()) == 2
        assert (await table.inspect()).indexes == ()
        await through_everything(table, ("Order",))

    ground.run(act)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("int", (10, 20, 30, 40)),
        ("state", ("a", "b", "c", "d")),
        ("varchar(9)", ("a", "b", "c", "d")),
        ("kind", ("a", "b", "c", "d")),
    ],
)
def test_a_status_of_any_type(ground: Ground, kind: str, words: tuple[Any, ...]) -> None:
    if ground.kind == "postgres":
        ground.say("CREATE TYPE state AS ENUM ('a', 'b', 'c', 'd')")
        ground.say("CREATE DOMAIN kind AS text CHECK (value IN ('a', 'b', 'c', 'd'))")
    ground.say(f"CREATE TABLE pastes (id int PRIMARY KEY, status {kind} NOT NULL, claimed_at {{stamp}}, resets int)")
    for id in (1, 2):
        ground.say("INSERT INTO pastes (id, status) VALUES (%s, %s)", id, words[0])

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        assert len(await table.create_indexes()) == 2
        assert (await table.inspect()).indexes == ()
        await table.claim("", 9)
        ground.age_of(words[1])
        assert [each.to for each in await table.reset(1)] == [RowOutcome.FAIL]
        assert set(ground.statuses().values()) == {words[1], words[3]}
        states = await table.states()
        assert states.rows == {str(words[1]): 1, str(words[3]): 1}

    names = dict(zip(("pending", "in_progress", "done", "failed"), words, strict=True))
    ground.play(act, where="true", resets="resets", max_resets=0, **names)


@pytest.mark.parametrize(("kind", "options"), [("REAL", {}), ("INTEGER", OWNED), ("TIMESTAMP", {}), ("", {})])
def test_stamps_as_sqlite_files_keep_them(sqlite: Ground, kind: str, options: dict[str, Any]) -> None:
    sqlite.make(3, stamp=kind)

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_everything(table, ("id",), count=3)
        sqlite.say("UPDATE pastes SET status = 'NEW'")
        mark = (await table.claim("me", 1)).fence
        assert await table.reset(9) == []
        ((seconds,),) = sqlite.say("SELECT unixepoch('now') - unixepoch(claimed_at, 'auto') FROM pastes WHERE status = 'BUSY'")
        assert 0 <= seconds < 60
        old = 1e9 if kind == "REAL" else 10**9 if kind == "INTEGER" else "2001-02-03 04:05:06"
        sqlite.say("UPDATE pastes SET claimed_at = %s WHERE status = 'BUSY'", old)
        (reset,) = await table.reset(9)
        assert reset.held > 20 * 365 * 86400
        assert await table.release(mark) == 0

    sqlite.play(act, order_by="id", **options)


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kolkata"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "timestamp(0)", "moment"])
def test_stamps_as_postgresql_keeps_them_in_any_zone(postgres: Ground, kind: str, zone: str) -> None:
    postgres.say(f"ALTER DATABASE {postgres.place.rpartition('/')[2]} SET timezone = '{zone}'")
    postgres.say("CREATE DOMAIN moment AS timestamp")
    postgres.make(2, stamp=kind, more=", expires_at timestamp DEFAULT localtimestamp")

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        await through_everything(table, ("id",))
        postgres.say("UPDATE pastes SET status = 'NEW'")
        claimed = await table.claim("me", 9)
        assert await table.reset(9) == []
        ((age,),) = postgres.say("SELECT abs(extract(epoch FROM localtimestamp - max(claimed_at)))::float8 FROM pastes")
        assert age < 60
        assert isinstance(claimed.rows[0]["claimed_at"], datetime)
        postgres.age()
        assert len(await table.reset(9)) == 2

    owned = OWNED if kind == "timestamp(0)" else {}
    postgres.play(act, order_by="id", where="expires_at <= now()", **owned)
