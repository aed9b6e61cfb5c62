"""A stamp is judged by its form: the type of a column in SQLite admits any value, and there a number comes before any text."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import RowFence, Table
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.rows.sqlite.table import LOOKED_THROUGH, SqliteTable
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS
from tests.rows.databases import ENDING, OWNED, Ground, keys, watch
from tests.rows.test_inspection import inspected, the_problem

FOREIGN_TYPES = ["DATETIME", "TIMESTAMP", "TEXT", "", "VARCHAR(40)"]
NOW, STALE = "strftime('%s', 'now')", "strftime('%s', 'now') - 99999"


def text(moment: datetime, form: str) -> str:
    """Write a time as other programs do."""
    return {
        "javascript": moment.strftime("%Y-%m-%dT%H:%M:%S.250Z"),
        "python": moment.isoformat(),
        "shown": str(moment),
        "naive": moment.replace(tzinfo=None).isoformat(),
        "east": moment.astimezone(timezone(timedelta(hours=14))).isoformat(),
        "west": moment.astimezone(timezone(timedelta(hours=-9, minutes=-30))).isoformat(),
    }[form]


def two(ground: Ground, status: str, fresh: object, old: object) -> None:
    """Row 1 has had that status for a second, row 2 for long."""
    ground.fill(2)
    for id, stamp in ((1, fresh), (2, old)):
        ground.say("UPDATE pastes SET status = %s, claimed_at = %s WHERE id = %s", status, stamp, id)


@pytest.mark.parametrize("kind", FOREIGN_TYPES)
def test_epoch_numbers_in_a_column_of_another_form_are_refused_with_the_remedy(sqlite: Ground, kind: str) -> None:
    sqlite.make(stamp=kind)
    two(sqlite, "GONE", 1_700_000_000, 1_700_000_001.5)
    problem = the_problem(sqlite)
    assert "holds seconds since 1970 in 2 rows, such as " in problem
    assert problem.endswith("use stamps='epoch'")
    assert inspected(sqlite, stamps="epoch").problems == ()


@pytest.mark.parametrize(
    ("stamp", "remedy"),
    [
        (1_700_000_000_250, "use stamps='epoch_ms'"),
        ("2023-11-14T22:13:20", "use stamps='iso'"),
        ("2023-11-14 22:13:20+02:00", "use stamps='iso'"),
        (1_700_000_000_250_000, "UPDATE them to that form"),
        ("yesterday", "UPDATE them to that form"),
        ("2023-11-14", "UPDATE them to that form"),
    ],
)
@pytest.mark.parametrize("kind", ["DATETIME", "TEXT"])
def test_stamps_of_another_form_are_refused_with_the_remedy(sqlite: Ground, kind: str, stamp: object, remedy: str) -> None:
    sqlite.make(1, stamp=kind)
    sqlite.say("UPDATE pastes SET status = 'BUSY', claimed_at = %s", stamp)
    assert the_problem(sqlite).endswith(remedy)


def test_a_form_that_the_column_does_not_hold_is_refused(sqlite: Ground) -> None:
    sqlite.make(1, stamp="DATETIME")
    sqlite.say("UPDATE pastes SET status = 'BUSY', claimed_at = {now}")
    assert the_problem(sqlite, stamps="epoch").endswith("leave out stamps=…")
    sqlite.say("UPDATE pastes SET claimed_at = 1700000000000")
    assert the_problem(sqlite, stamps="epoch").endswith("use stamps='epoch_ms'")


def test_one_unreadable_stamp_among_others_is_a_warning(sqlite: Ground) -> None:
    sqlite.make(3, stamp="DATETIME")
    sqlite.say("UPDATE pastes SET status = 'BUSY', claimed_at = CASE id WHEN 1 THEN 17 ELSE {now} END")
    findings = inspected(sqlite)
    assert findings.problems == ()
    assert any(
        "holds a value that is not a time in any form that can be compared in 1 rows, such as 17" in each
        for each in findings.warnings
    )


@pytest.mark.parametrize("kind", FOREIGN_TYPES)
@pytest.mark.parametrize("fresh", [NOW, f"{NOW} * 1000", f"{NOW} + 0.5"])
def test_rows_stamped_with_numbers_a_second_ago_are_never_deleted_or_taken(sqlite: Ground, kind: str, fresh: str) -> None:
    sqlite.make(2, stamp=kind)
    sqlite.say(f"UPDATE pastes SET status = CASE id WHEN 1 THEN 'GONE' ELSE 'BUSY' END, claimed_at = CAST({fresh} AS REAL)")
    before = sqlite.say("SELECT * FROM pastes")

    async def act(table: Table) -> None:
        assert (await table.prune(9), await table.reset(9), len(await table.stamp_unstamped(9))) == (0, [], 0)
        assert await table.unreadable(9) == [(2,)]
        states = await table.states()
        assert (states.stuck, states.oldest, states.holders[0].oldest) == (0, None, 0.0)
        assert sqlite.say("SELECT * FROM pastes") == before

    sqlite.play(act, retention="1h")


RUBBISH: list[object] = [
    -1,
    0,
    1.5,
    math.inf,
    -math.inf,
    "",
    " ",
    "now",
    b"2001-01-01 00:00:00",
    b"",
    10**18,
    "1e8",
    "0000-00-00",
]


@pytest.mark.parametrize("kind", ["DATETIME", "TEXT", "REAL", ""])
@pytest.mark.parametrize("stamps", [None, "epoch", "epoch_ms", "iso"])
def test_rubbish_in_the_stamp_is_left_alone_and_reported_and_nothing_loops(sqlite: Ground, kind: str, stamps: str | None) -> None:
    sqlite.make(2 * len(RUBBISH), stamp=kind)
    for id, stamp in enumerate([*RUBBISH, *RUBBISH], 1):
        status = "BUSY" if id <= len(RUBBISH) else "GONE"
        sqlite.say("UPDATE pastes SET status = %s, claimed_at = %s WHERE id = %s", status, stamp, id)
    before = sqlite.say("SELECT * FROM pastes")

    async def act(table: Table) -> None:
        assert (await table.prune(99), await table.reset(99), len(await table.stamp_unstamped(99))) == (0, [], 0)
        assert len(await table.unreadable(99)) == len(RUBBISH)
        assert len(await table.unreadable(3)) == 3
        assert (await table.states()).stuck == 0
        assert sqlite.say("SELECT * FROM pastes") == before

    sqlite.play(act, retention="1h", stamps=stamps)


def test_a_pending_row_is_claimed_with_any_old_stamp(sqlite: Ground) -> None:
    sqlite.make(len(RUBBISH), stamp="")
    for id, stamp in enumerate(RUBBISH, 1):
        sqlite.say("UPDATE pastes SET claimed_at = %s WHERE id = %s", stamp, id)

    async def act(table: Table) -> None:
        claimed = await table.claim("", 99)
        assert len(await table.move(claimed.fence, keys(claimed), RowOutcome.DONE)) == len(RUBBISH)
        assert await table.unreadable(9) == []

    sqlite.play(act)


EPOCHS = [(kind, stamps) for kind in ["DATETIME", "REAL", "TEXT", ""] for stamps in ["epoch", "epoch_ms"]]


@pytest.mark.parametrize(("kind", "stamps"), EPOCHS)
def test_epoch_stamps_are_compared_and_written_as_such(sqlite: Ground, kind: str, stamps: str) -> None:
    sqlite.make(stamp=kind)
    unit = 1000 if stamps == "epoch_ms" else 1
    now = SystemClock().wall()
    two(sqlite, "BUSY", int(now * unit), int((now - 9 * 3600) * unit))

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        states = await table.states()
        assert states.stuck == 1
        assert 8 * 3600 < (states.oldest or 0) < 10 * 3600
        (reset,) = await table.reset(9)
        assert (reset.key, 8 * 3600 < reset.held < 10 * 3600) == ((2,), True)
        claimed = await table.claim("", 9)
        ((kind_of, written),) = sqlite.say("SELECT typeof(claimed_at), claimed_at FROM pastes WHERE id = 2")
        assert kind_of == ("text" if kind == "TEXT" else "real")
        assert abs(float(written) / unit - now) < 60
        assert claimed.rows[0]["claimed_at"] == written
        assert await table.unreadable(9) == []
        assert await table.move(claimed.fence, keys(claimed), RowOutcome.DONE, is_all=True) == [(2,)]
        sqlite.say(f"UPDATE pastes SET claimed_at = claimed_at - {9 * 3600 * unit} WHERE id = 2")
        assert await table.prune(9) == 1
        sqlite.say(f"UPDATE pastes SET claimed_at = claimed_at + {9 * 3600 * unit} WHERE id = 1")
        assert (len(await table.stamp_unstamped(9)), len(await table.stamp_unstamped(9)), await table.reset(9)) == (1, 0, [])
        assert sqlite.say("SELECT id, status FROM pastes") == [(1, "BUSY")]

    sqlite.play(act, stamps=stamps, retention="1h")


@pytest.mark.parametrize("stamps", [None, "epoch_ms"])
def test_integers_need_an_owner_to_be_a_fence(sqlite: Ground, stamps: str | None) -> None:
    sqlite.make(2, stamp="INTEGER")
    what = "milliseconds" if stamps else "seconds"
    assert f"INTEGER, whole {what}, too coarse" in the_problem(sqlite, stamps=stamps)

    async def act(table: Table) -> None:
        claimed = await table.claim("me", 9)
        assert sqlite.say("SELECT DISTINCT typeof(claimed_at) FROM pastes") == [("integer",)]
        assert (await table.unreadable(9), await table.reset(9)) == ([], [])
        assert await table.move(claimed.fence, [(1,)], RowOutcome.DONE) == [(1,)]
        sqlite.say("UPDATE pastes SET claimed_at = claimed_at - 99999999")
        assert [each.key for each in await table.reset(9)] == [(2,)]

    sqlite.play(act, stamps=stamps, **OWNED)


@pytest.mark.parametrize("form", ["javascript", "python", "shown", "naive", "east", "west"])
@pytest.mark.parametrize("kind", ["DATETIME", "TEXT"])
def test_iso_stamps_are_compared_by_their_time_under_any_offset(sqlite: Ground, kind: str, form: str) -> None:
    sqlite.make(stamp=kind)
    now = datetime.fromtimestamp(SystemClock().wall(), UTC)
    two(sqlite, "BUSY", text(now - timedelta(minutes=110), form), text(now - timedelta(minutes=130), form))
    sqlite.say("INSERT INTO pastes (id, status, claimed_at) VALUES (3, 'GONE', %s)", text(now - timedelta(minutes=50), form))
    sqlite.say("INSERT INTO pastes (id, status, claimed_at) VALUES (4, 'GONE', %s)", text(now - timedelta(minutes=70), form))

    async def act(table: Table) -> None:
        assert (await table.inspect()).problems == ()
        assert (await table.states()).stuck == 1
        (reset,) = await table.reset(9)
        assert (reset.key, 129 * 60 < reset.held < 131 * 60) == ((2,), True)
        assert await table.prune(9) == 1
        claimed = await table.claim("", 9)
        ((written,),) = sqlite.say("SELECT claimed_at FROM pastes WHERE id = 2")
        assert abs(datetime.fromisoformat(written) - now) < timedelta(minutes=1)
        assert len(written) == len("2023-11-14T22:13:20.250000+00:00")
        assert await table.move(claimed.fence, keys(claimed), RowOutcome.RETRY, is_all=True) == [(2,)]
        sqlite.say("UPDATE pastes SET status = 'BUSY', claimed_at = %s WHERE id = 2", text(now + timedelta(minutes=130), form))
        assert (len(await table.stamp_unstamped(9)), len(await table.stamp_unstamped(9))) == (1, 0)

    sqlite.play(act, stamps="iso", retention="1h")


@pytest.mark.parametrize("stamps", [None, "epoch", "iso"])
def test_suggested_indexes_are_found_and_used_for_every_form(sqlite: Ground, stamps: str | None) -> None:
    sqlite.make(stamp="DATETIME")

    async def act(table: Table) -> None:
        assert len(await table.create_indexes()) == 3
        assert (await table.inspect()).indexes == ()

    sqlite.play(act, stamps=stamps, retention="1h")
    expression = 'julianday("claimed_at")' if stamps == "iso" else "claimed_at"
    plan = sqlite.say(f"EXPLAIN QUERY PLAN SELECT 1 FROM pastes WHERE status = 'BUSY' AND {expression} < 5")
    assert "holdfast_pastes_stuck" in plan[0][3]


def test_a_form_is_none_of_postgres_business(postgres: Ground) -> None:
    postgres.make()
    assert the_problem(postgres, stamps="epoch").endswith("whose form is fixed: leave it out")


@pytest.mark.parametrize("kind", ["date", "text", "bigint", "double precision", "time", "interval"])
def test_a_column_of_postgres_that_holds_no_moments_is_refused(postgres: Ground, kind: str) -> None:
    postgres.make(stamp=kind)
    problem = " ".join(inspected(postgres).problems)
    assert "name one of a time" in problem
    assert ("`ALTER TABLE" in problem) == (kind not in ("time", "interval"))


def test_rows_done_at_no_time_are_not_deleted(postgres: Ground) -> None:
    postgres.make(3)
    postgres.say(
        "UPDATE pastes SET status = 'GONE', claimed_at = CASE id WHEN 1 THEN timestamptz '-infinity' WHEN 2 THEN 'infinity' END"
    )

    async def act(table: Table) -> None:
        assert await table.prune(9) == 0
        assert list(postgres.statuses()) == [1, 2, 3]

    postgres.play(act, retention="1h")


def test_a_poison_row_stamped_with_numbers_ends_in_failed(sqlite: Ground) -> None:
    sqlite.make(1, stamp="DATETIME")

    async def act(table: Table) -> None:
        for _ in range(3):
            assert (await table.claim("", 1)).fence != RowFence("", "")
            sqlite.say("UPDATE pastes SET claimed_at = claimed_at - 99999")
            await table.reset(9)
        assert sqlite.statuses() == {1: "BAD"}

    options: dict[str, Any] = {"stamps": "epoch", **ENDING}
    sqlite.play(act, **options)


def test_rows_without_a_stamp_are_of_no_form(sqlite: Ground) -> None:
    sqlite.make(2, stamp="DATETIME")
    sqlite.say("UPDATE pastes SET status = CASE id WHEN 1 THEN 'BUSY' ELSE 'GONE' END")
    findings = inspected(sqlite)
    assert (findings.problems, findings.warnings) == ((), ())

    async def act(table: Table) -> None:
        assert await table.unreadable(9) == []
        assert len(await table.stamp_unstamped(9)) == 1

    sqlite.play(act)


def test_the_start_inspects_some_rows_in_progress_and_of_the_newest(sqlite: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite.make(7, stamp="DATETIME")
    monkeypatch.setattr("holdfast.rows.sqlite.inspection.SAMPLED", 2)
    sqlite.say("UPDATE pastes SET status = 'GONE', claimed_at = CASE WHEN id < 6 THEN 17 ELSE {now} END")
    findings = inspected(sqlite)
    assert (findings.problems, findings.warnings) == ((), ()), "what was done before is of no concern"
    sqlite.say("UPDATE pastes SET status = 'BUSY' WHERE id < 4")
    assert "in 2 rows, such as 17" in inspected(sqlite).warnings[0]


@pytest.mark.parametrize("stamp", FOREIGN_TYPES)
def test_rows_done_under_stamps_of_another_form_are_not_walked_by_each_look_for_rows_to_delete(
    sqlite: Ground, stamp: str
) -> None:
    sqlite.make(4, stamp=stamp)
    foreign = "CASE id WHEN 1 THEN 1700000000 WHEN 2 THEN 1700000000.5 WHEN 3 THEN '1700000000' ELSE '1600000000.5' END"
    sqlite.say(f"UPDATE pastes SET status = 'GONE', claimed_at = {foreign}")
    sqlite.say("CREATE INDEX gone ON pastes (claimed_at) WHERE status = 'GONE'")
    clock = FakeClock()

    async def act() -> None:
        table = SqliteTable(sqlite.place, watch(retention="1h"), clock=clock, chance=SystemRandomness(), process=PROCESS)
        bounds = list[Any]()
        explained = dict[str, list[Any]]()

        def listening(file: Any, verb: str, sql: str, values: dict[str, Any], *, is_part: bool) -> int:
            bounds.append(values["from"])
            explained[verb] = file.ask("explain", f"EXPLAIN QUERY PLAN {sql}", values)
            return count(file, verb, sql, values, is_part=is_part)

        count, table._count = table._count, listening  # type: ignore[method-assign]
        assert [await table.prune(9), await table.prune(9)] == [0, 0]
        assert any("gone (claimed_at>? AND claimed_at<?)" in line[3] for line in explained["prune"])
        least, usual = bounds
        ((below,),) = sqlite.say("SELECT count(*) FROM pastes WHERE claimed_at >= %s", usual)
        assert (least, below) == ("", 0)
        sqlite.say("UPDATE pastes SET claimed_at = '1900-01-01 00:00:00' WHERE id = 1")
        sqlite.say("UPDATE pastes SET claimed_at = '1971-01-01 00:00:00' WHERE id = 2")
        assert await table.prune(9) == 1
        clock.advance(LOOKED_THROUGH)
        assert (await table.prune(9), list(sqlite.statuses())) == (1, [3, 4])
        await table.close()

    sqlite.run(act)
