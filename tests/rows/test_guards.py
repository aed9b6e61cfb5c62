"""The purpose of each condition of a statement, where no other test shows it: see ``scripts/mutate_sql.py``."""

import psycopg
import pytest

from holdfast._core.table_spec import RowOutcome
from holdfast._ports.table import Table
from holdfast.errors import HoldfastError
from tests.rows.databases import OWNED, Ground, keys
from tests.rows.test_inspection import inspected, the_problem

PARTS = (
    "CREATE TABLE pastes (id int, day date, status text NOT NULL, claimed_at timestamptz, PRIMARY KEY (id, day)) "
    "PARTITION BY RANGE (day)"
)


def parted(postgres: Ground) -> None:
    """Make a table of two years."""
    postgres.say(PARTS)
    for year in (2024, 2025):
        postgres.say(f"CREATE TABLE pastes_{year} PARTITION OF pastes FOR VALUES FROM ('{year}-01-01') TO ('{year + 1}-01-01')")


def test_rows_that_have_the_same_ctid_in_two_partitions_are_distinguished(postgres: Ground) -> None:
    parted(postgres)

    def lay(status: str, stamp: str) -> None:
        postgres.say("TRUNCATE pastes")
        postgres.say(
            f"INSERT INTO pastes SELECT 1, day::date, '{status}', {stamp} FROM (VALUES ('2024-05-05'), ('2025-05-05')) AS d (day)"
        )

    async def act(table: Table) -> None:
        lay("BUSY", "NULL")
        assert len(await table.stamp_unstamped(1)) == 1
        assert postgres.say("SELECT count(claimed_at) FROM pastes") == [(1,)]
        lay("BUSY", "{long_ago}")
        assert len(await table.reset(1)) == 1
        assert postgres.say("SELECT count(*) FROM pastes WHERE status = 'NEW'") == [(1,)]
        lay("GONE", "{long_ago}")
        assert await table.prune(1) == 1
        assert postgres.say("SELECT count(*) FROM pastes") == [(1,)]

    postgres.play(act, key=("id", "day"), where="true", retention="1h")


def test_rows_that_have_a_stamp_are_in_nobodys_way_when_others_get_one(ground: Ground) -> None:
    ground.make(3)
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = CASE WHEN id < 3 THEN {now} END")

    async def act(table: Table) -> None:
        assert len(await table.stamp_unstamped(2)) == 1
        assert ground.say("SELECT count(claimed_at) FROM pastes") == [(3,)]

    ground.play(act)


def test_rows_whose_stamp_is_as_it_should_be_are_in_nobodys_way_when_those_ahead_are_set_right(ground: Ground) -> None:
    ground.make(7)
    ground.say("UPDATE pastes SET status = 'GONE', claimed_at = '2999-01-01 00:00:00' WHERE id < 3")
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = {now} WHERE id IN (3, 4)")
    ground.say("UPDATE pastes SET status = 'BUSY', claimed_at = '2999-01-01 00:00:00' WHERE id > 4")

    async def act(table: Table) -> None:
        for left in (1, 0):
            assert len(await table.stamp_unstamped(2)) == 2 - (not left)
            ahead = "SELECT count(*) FROM pastes WHERE status = 'BUSY' AND claimed_at = '2999-01-01 00:00:00'"
            assert ground.say(ahead) == [(left,)]

    ground.play(act)


def test_each_row_that_is_reset_is_reported_with_its_owner(ground: Ground) -> None:
    ground.make(4)
    ground.say("UPDATE pastes SET status = 'BUSY', owner = 'owner ' || id, claimed_at = {long_ago}")

    async def act(table: Table) -> None:
        assert {each.key: each.owner for each in await table.reset(9)} == {(id,): f"owner {id}" for id in range(1, 5)}

    ground.play(act, **OWNED)


def test_what_an_owner_has_done_does_not_delay_its_next_claim(ground: Ground) -> None:
    ground.make(2)

    async def act(table: Table) -> None:
        for id in (1, 2):
            claimed = await table.claim("me", 1)
            assert keys(claimed) == [(id,)]
            assert await table.move(claimed.fence, [(id,)], RowOutcome.DONE) == [(id,)]

    ground.play(act, order_by="id", **OWNED)


def test_rows_that_were_done_long_ago_are_neither_stuck_nor_the_oldest(ground: Ground) -> None:
    ground.make(3)

    async def act(table: Table) -> None:
        await table.claim("", 1)
        ground.say("UPDATE pastes SET status = 'GONE', claimed_at = {long_ago} WHERE id > 1")
        states = await table.states()
        assert (states.rows, states.stuck) == ({"BUSY": 1, "GONE": 2}, 0)
        assert states.oldest is not None
        assert states.oldest < 3600

    ground.play(act, order_by="id")


def test_rows_whose_stamp_is_not_a_time_do_not_count_for_the_oldest(ground: Ground) -> None:
    ground.make(2)
    ground.say("UPDATE pastes SET status = 'BUSY', owner = 'me', claimed_at = {long_ago}")
    ground.say("UPDATE pastes SET claimed_at = '-infinity' WHERE id = 2")

    async def act(table: Table) -> None:
        states = await table.states()
        assert [each.rows for each in states.holders] == [2]
        for oldest in (states.oldest, states.holders[0].oldest):
            assert oldest == pytest.approx(3 * 3600, abs=600)

    ground.play(act, **OWNED)


def test_a_condition_with_an_alternative_is_one_condition_in_every_position(ground: Ground) -> None:
    ground.make(1)
    ground.say("UPDATE pastes SET status = 'GONE'")

    async def act(table: Table) -> None:
        assert not await table.has_due()
        assert (await table.states()).due == 0

    ground.play(act, where="is_due OR true")


def test_a_row_whose_owner_is_never_null_has_an_empty_one_when_it_is_nobodys(ground: Ground) -> None:
    ground.make(2, more=", who text NOT NULL DEFAULT ''")

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 9)).fence
        assert await table.move(mark, [(1,)], RowOutcome.RETRY) == [(1,)]
        assert await table.release(mark) == 1
        assert ground.say("SELECT DISTINCT who FROM pastes") == [("",)]

    ground.play(act, owner="who")


def test_a_row_that_is_done_keeps_its_stamp_where_nothing_counts_from_it(ground: Ground) -> None:
    ground.make(1)

    async def act(table: Table) -> None:
        mark = (await table.claim("me", 1)).fence
        ground.age()
        before = ground.say("SELECT claimed_at FROM pastes")
        assert await table.move(mark, [(1,)], RowOutcome.DONE) == [(1,)]
        assert ground.say("SELECT claimed_at FROM pastes") == before

    ground.play(act, **OWNED)


def test_a_look_judges_no_row(ground: Ground) -> None:
    ground.make(1)
    ground.say("UPDATE pastes SET reason = 'no number'")
    where = "reason::int > 0" if ground.kind == "postgres" else "json(reason) IS NOT NULL"
    assert inspected(ground, where=where).problems == ()

    async def act(table: Table) -> None:
        with pytest.raises(HoldfastError, match=r"malformed JSON|invalid input syntax"):
            await table.claim("", 1)

    ground.play(act, where=where)


def test_an_order_in_which_no_row_can_be_locked_is_a_problem(postgres: Ground) -> None:
    postgres.make()
    assert "not allowed with window functions" in the_problem(postgres, order_by="row_number() OVER (ORDER BY reason)")


def test_a_key_that_may_be_null_and_never_is_stands_in_nobodys_way(ground: Ground) -> None:
    ground.make(2, key="id int UNIQUE")
    findings = inspected(ground)
    assert (findings.problems, len(findings.warnings)) == ((), 1)
    ground.say("DELETE FROM pastes")
    assert inspected(ground).problems == ()


def test_a_key_whose_type_is_never_null(postgres: Ground) -> None:
    postgres.say("CREATE DOMAIN number AS int NOT NULL")
    postgres.make(key="id number UNIQUE")
    findings = inspected(postgres)
    assert (findings.problems, findings.warnings) == ((), ())


def test_an_index_that_is_not_unique_makes_no_key_nor_does_that_of_another_table(ground: Ground) -> None:
    ground.make(key="id int NOT NULL")
    ground.say("CREATE INDEX of_ids ON pastes (id)")
    ground.say("CREATE TABLE others (id int PRIMARY KEY)")
    assert "CREATE UNIQUE INDEX" in the_problem(ground)


def test_an_index_of_an_expression_makes_no_key(ground: Ground) -> None:
    ground.make(key="id int NOT NULL")
    ground.say("CREATE UNIQUE INDEX of_words ON pastes (id, lower(reason))")
    assert '("id")' in the_problem(ground)


def test_columns_that_an_index_only_carries_are_not_part_of_the_key(postgres: Ground) -> None:
    postgres.make(key="id int NOT NULL")
    postgres.say("CREATE UNIQUE INDEX of_ids ON pastes (id) INCLUDE (reason)")
    assert inspected(postgres).problems == ()


def test_what_another_tables_check_forbids_does_not_matter_here(ground: Ground) -> None:
    ground.make()
    ground.say("CREATE TABLE others (status text CHECK (status = 'other'), claimed_at {stamp})")
    findings = inspected(ground)
    assert (findings.problems, findings.warnings) == ((), ())


def test_triggers_that_are_the_databases_own_or_do_not_run_are_not_reported(postgres: Ground) -> None:
    postgres.make()
    postgres.say("CREATE TABLE lines (paste int REFERENCES pastes (id) ON UPDATE CASCADE)")
    postgres.say("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'")
    postgres.say("CREATE TRIGGER touch BEFORE UPDATE ON pastes FOR EACH ROW EXECUTE FUNCTION f()")
    assert len(inspected(postgres).warnings) == 1
    postgres.say("ALTER TABLE pastes DISABLE TRIGGER touch")
    assert inspected(postgres).warnings == ()


def test_a_trigger_may_be_called_as_the_table_or_an_index_is(sqlite: Ground) -> None:
    sqlite.make()
    for name in ("pastes", "own"):
        sqlite.say(f"CREATE TRIGGER {name} AFTER INSERT ON pastes BEGIN SELECT 1; END")
    sqlite.say("CREATE INDEX own ON pastes (id) WHERE status = 'NEW'")
    findings = inspected(sqlite)
    assert (findings.problems, findings.warnings, len(findings.indexes)) == ((), (), 1)


def test_for_a_table_that_is_not_there_only_tables_are_suggested(ground: Ground) -> None:
    ground.make()
    ground.say("CREATE VIEW pasted AS SELECT 1")
    assert 'did you mean "pastes"?' in the_problem(ground, table="pasted_")


def test_tables_of_the_database_itself_are_not_suggested(ground: Ground) -> None:
    if ground.kind == "sqlite":
        ground.say("CREATE TABLE pastes (id INTEGER PRIMARY KEY AUTOINCREMENT)")
        assert the_problem(ground, table="sqlite_sequenc").endswith('it has "pastes"')
    else:
        assert the_problem(ground, table="pg_clas").endswith("it has none")


def test_a_busy_address_is_not_suggested(postgres: Ground) -> None:
    with psycopg.connect(postgres.place) as other:
        other.execute("CREATE TEMP TABLE pastes (id int)")
        other.commit()
        assert the_problem(postgres, table="pasts").endswith("it has none")


def test_partitions_are_not_suggested(postgres: Ground) -> None:
    parted(postgres)
    assert 'did you mean "pastes"?' in the_problem(postgres, table="pastes_2026")


def test_tables_of_other_schemas_are_suggested_with_theirs(postgres: Ground) -> None:
    for schema in ("shop", "stock"):
        postgres.say(f"CREATE SCHEMA {schema}")
        postgres.say(f"CREATE TABLE {schema}.pastes (id int)")
    for schema in ("shop", "stock"):
        assert the_problem(postgres, table=f"{schema}.pasts").endswith(f'did you mean "{schema}.pastes"?')
    assert the_problem(postgres, table="pasts").endswith('.pastes"?')
