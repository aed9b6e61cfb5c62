"""Everything that does not fit is reported before anything is claimed, each with its remedy, and looking changes nothing."""

from typing import Any

import pytest

from holdfast._ports.table import Findings, Table
from holdfast.errors import ConfigurationError
from tests.rows.databases import ENDING, OWNED, Ground


def inspected(ground: Ground, **options: Any) -> Findings:
    """Return what an inspection of the table reports."""
    found: list[Findings] = []

    async def act(table: Table) -> None:
        found.append(await table.inspect())

    ground.play(act, **options)
    return found[0]


def the_problem(ground: Ground, **options: Any) -> str:
    """Return the only problem."""
    (problem,) = inspected(ground, **options).problems
    return problem


def test_a_table_that_fits_has_no_findings_but_its_indexes(ground: Ground) -> None:
    ground.make(3)
    before = ground.say("SELECT * FROM pastes")
    findings = inspected(ground, **OWNED, **ENDING)
    assert (findings.problems, findings.warnings, len(findings.indexes)) == ((), (), 2)
    assert ground.say("SELECT * FROM pastes") == before


def test_a_table_that_is_not_there(ground: Ground) -> None:
    ground.make()
    problem = the_problem(ground, table="pasts")
    assert "there is no table pasts in" in problem
    assert 'did you mean "pastes"?' in problem


def test_every_verb_reports_it_too(ground: Ground) -> None:
    async def act(table: Table) -> None:
        with pytest.raises(ConfigurationError, match="there is no table pastes"):
            await table.claim("", 1)
        ground.make()
        await table.claim("", 1)

    ground.play(act)


def test_columns_that_are_not_there_all_at_once(ground: Ground) -> None:
    ground.make()
    options: dict[str, Any] = {"status": "Status", "owner": "ownr", "columns": ["zzz"], "key": ("id", "idd")}
    problems = inspected(ground, **options).problems
    assert [problem.split(": ")[0] for problem in problems] == ["status", "key[1]", "owner", "columns[0]"]
    assert 'pastes has no column "Status": did you mean "status"?' in problems[0]
    assert 'did you mean "owner"?' in problems[2]
    assert 'it has "id", "status"' in problems[3]

    async def act(table: Table) -> None:
        with pytest.raises(ConfigurationError) as caught:
            await table.has_due()
        assert caught.value.problems == [f"rows pastes: {problem}" for problem in problems]

    ground.play(act, **options)


def test_a_view(ground: Ground) -> None:
    ground.make()
    ground.say("CREATE VIEW due AS SELECT * FROM pastes")
    assert "due is a view, whose rows cannot be locked and marked: name the table beneath it" in the_problem(ground, table="due")


def test_a_check_that_forbids_a_state(ground: Ground) -> None:
    ground.make(more=", CHECK (status IN ('NEW', 'GONE', 'OLD'))")
    problem = the_problem(ground, failed="BAD")
    assert "CHECK constraint" in problem
    assert "forbids in_progress='BUSY', failed='BAD'" in problem


def test_a_check_that_forbids_a_state_together_with_its_stamp(ground: Ground) -> None:
    ground.make(more=", CHECK ((status = 'BUSY') = (claimed_at IS NOT NULL))")
    assert "forbids done='GONE'" in the_problem(ground)


def test_a_check_that_all_states_pass(ground: Ground) -> None:
    ground.make(
        more=", CHECK (status IN ('NEW', 'BUSY', 'GONE', 'it''s (', 'BAD')), CHECK (resets >= 0), CHECK (id > 0 AND is_due)"
    )
    findings = inspected(ground, **OWNED, **ENDING)
    assert (findings.problems, findings.warnings) == ((), ())


def test_a_check_of_other_columns_too_is_a_warning(ground: Ground) -> None:
    ground.make(more=", CHECK (status <> 'BUSY' OR is_due)")
    (warning,) = inspected(ground).warnings
    assert "depends on other columns too: see that it holds in each state" in warning


def test_a_key_that_nothing_makes_unique(ground: Ground) -> None:
    ground.make(key="id int NOT NULL")
    assert 'nothing makes key "id" of pastes unique' in the_problem(ground)


def test_a_key_that_is_only_part_of_what_is_unique(ground: Ground) -> None:
    ground.make(key="id int NOT NULL, part int NOT NULL", more=", PRIMARY KEY (id, part)")
    assert "use key=('id', 'part')" in the_problem(ground)
    assert inspected(ground, key=("part", "id")).problems == ()


def test_an_index_that_is_unique_for_some_rows_makes_no_key(ground: Ground) -> None:
    ground.make(key="id int NOT NULL")
    ground.say("CREATE UNIQUE INDEX of_due ON pastes (id) WHERE is_due")
    assert "nothing makes key" in the_problem(ground)
    ground.say("CREATE UNIQUE INDEX of_all ON pastes (id)")
    assert inspected(ground).problems == ()


def test_rows_without_a_key(ground: Ground) -> None:
    ground.make(key="id int UNIQUE")
    (warning,) = inspected(ground).warnings
    assert 'key "id" may be NULL' in warning
    ground.say("INSERT INTO pastes (id, status) VALUES (NULL, 'NEW'), (7, 'NEW')")
    assert 'has rows whose key "id" is NULL' in the_problem(ground)

    async def act(table: Table) -> None:
        assert [row["id"] for row in (await table.claim("", 9)).rows] == [7]
        assert not await table.has_due()

    ground.play(act)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"where": "is_du"}, 'did you mean "is_due"?'),
        ({"where": "is_due AND"}, "correct the SQL"),
        ({"order_by": "prio"}, "correct the SQL"),
        ({"where": "nosuch(is_due)"}, "nosuch"),
        ({"where": "is_due = :due"}, "correct the SQL"),
    ],
)
def test_sql_that_the_database_does_not_understand(ground: Ground, options: dict[str, str], says: str) -> None:
    ground.make()
    problem = the_problem(ground, **options)
    assert problem.startswith("where=")
    assert says in problem


def test_a_trigger_is_a_warning_if_it_runs_with_writes_of_holdfast(ground: Ground) -> None:
    ground.make()
    if ground.kind == "postgres":
        ground.say("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'")
        act = "EXECUTE FUNCTION f()"
    else:
        act = "BEGIN SELECT 1; END"
    for name, event in (("touch", "BEFORE UPDATE"), ("log", "AFTER DELETE"), ("born", "AFTER INSERT")):
        ground.say(f"CREATE TRIGGER {name} {event} ON pastes FOR EACH ROW {act}")
    ground.say("CREATE TABLE others (id int)")
    ground.say(f"CREATE TRIGGER elsewhere BEFORE UPDATE ON others FOR EACH ROW {act}")
    (warning,) = inspected(ground).warnings
    assert 'trigger "touch" of pastes runs whenever rows are claimed or moved' in warning
    assert len(inspected(ground, deletes=True).warnings) == 2


@pytest.mark.parametrize(
    ("column", "kind", "option"), [("who", "int", "owner"), ("why", "int", "reason"), ("many", "text", "resets")]
)
def test_columns_of_types_that_do_not_fit(ground: Ground, column: str, kind: str, option: str) -> None:
    ground.make(more=f", {column} {kind}")
    problem = the_problem(ground, failed="BAD", **{option: column})
    assert f'{option}: column "{column}" is {kind}' in problem.replace("INT:", "int:").replace("TEXT:", "text:")
    assert "name one of type" in problem


def test_columns_that_cannot_be_written(ground: Ground) -> None:
    ground.make(more=", who text GENERATED ALWAYS AS ('x' || status) STORED")
    problems = inspected(ground, owner="who").problems
    assert any('column "who" is generated' in problem for problem in problems)


def test_indexes_are_created_once_and_are_then_no_finding(ground: Ground) -> None:
    ground.make(more=", at {stamp}")

    async def act(table: Table) -> None:
        suggested = (await table.inspect()).indexes
        assert await table.create_indexes() == suggested
        assert '("at") WHERE "status" = \'NEW\'' in suggested[0]
        assert '("claimed_at") WHERE "status" = \'BUSY\'' in suggested[1]
        assert '("claimed_at") WHERE "status" = \'GONE\'' in suggested[2]
        assert (await table.inspect()).indexes == await table.create_indexes() == ()

    ground.play(act, where="at < CURRENT_TIMESTAMP", retention="1d")


@pytest.mark.parametrize(
    ("index", "is_enough"),
    [
        ("(id) WHERE status = 'NEW'", True),
        ("(id, reason) WHERE status = 'NEW' AND is_due", True),
        ("(status, id)", True),
        ("(status)", False),
        ("(id) WHERE status = 'NEWER'", False),
        ("(reason) WHERE status = 'NEW'", False),
    ],
)
def test_an_index_of_the_users_own_may_be_enough(ground: Ground, index: str, is_enough: bool) -> None:
    ground.make()
    ground.say(f"CREATE INDEX own ON pastes {index}")
    assert len(inspected(ground).indexes) == 2 - is_enough


def test_indexes_of_an_order_in_sql(ground: Ground) -> None:
    ground.make()

    async def act(table: Table) -> None:
        assert "(resets DESC, id)" in (await table.create_indexes())[0]
        assert (await table.inspect()).indexes == ()

    ground.play(act, order_by="resets DESC, id")
