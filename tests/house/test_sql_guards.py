"""Guards of SQL are found, and what is taken out is what was meant; what is remembered of them speaks of guards that exist."""

import json
from pathlib import Path

import pytest

from scripts import mutate_sql
from scripts.sql_guards import guards


def edits(text: str) -> dict[str, str]:
    return {guard.name: guard.removed_from(text) for guard in guards(text)}


def test_each_condition_is_taken_out_alone() -> None:
    found = edits("DELETE FROM jobs WHERE id = :id AND state NOT IN ('a', 'b');")
    assert found == {
        "AND: id = :id": "DELETE FROM jobs WHERE (id = :id OR TRUE) AND state NOT IN ('a', 'b');",
        "AND: state NOT IN ('a', 'b')": "DELETE FROM jobs WHERE id = :id AND (state NOT IN ('a', 'b') OR TRUE);",
    }


def test_an_alternative_is_taken_out_by_being_false_and_the_group_as_a_whole() -> None:
    inner = ["OR: b", "AND: c", "OR: c AND d", "AND: d"]
    assert list(edits("SELECT 1 FROM t WHERE a AND (b OR c AND d)")) == ["AND: a", *inner, "AND: (b OR c AND d)"]
    assert edits("SELECT 1 WHERE a OR b")["OR: b"] == "SELECT 1 WHERE a OR (b AND FALSE)"


def test_the_and_of_between_belongs_to_it() -> None:
    assert list(edits("SELECT 1 WHERE a BETWEEN 1 AND 2 AND b")) == ["AND: a BETWEEN 1 AND 2", "AND: b"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT CASE WHEN a = 1 THEN 2 ELSE b AND c END", ["WHEN: a = 1", "AND: b", "AND: c"]),
        ("SELECT CASE a WHEN 'x' THEN NOT EXISTS (SELECT 1) END", ["value: NOT EXISTS (SELECT 1)"]),
        ("SELECT iif(a > 1, b, c) FROM t", ["value: a > 1"]),
        ("UPDATE t SET is_a = is_a OR :b, c = 1", ["OR: is_a", "OR: :b"]),
        (
            "SELECT 1 FROM t LEFT JOIN u ON u.id = t.id AND u.x GROUP BY a HAVING n > 1",
            ["AND: u.id = t.id", "AND: u.x", "HAVING: n > 1"],
        ),
        ("SELECT DISTINCT ON (a) a FROM t LEFT JOIN u ON true", []),
        ("CREATE TEMP TRIGGER x INSTEAD OF INSERT ON t WHEN NEW.a IS NOT NULL BEGIN SELECT 1; END;", ["WHEN: NEW.a IS NOT NULL"]),
        ("SELECT right(a, 8) FROM t WHERE right(a, 8) < :limit", ["WHERE: right(a, 8) < :limit"]),
        (
            "SELECT 1 WHERE a IS NOT DISTINCT FROM $1 AND b <> ALL (ARRAY[1])",
            ["AND: a IS NOT DISTINCT FROM $1", "AND: b <> ALL (ARRAY[1])"],
        ),
        ("GRANT SELECT ON jobs TO reader", []),
        ("SELECT 'a AND b' -- WHERE c AND d", []),
    ],
)
def test_conditions_are_found_wherever_they_stand(text: str, names: list[str]) -> None:
    assert list(edits(text)) == names


def test_limits_locks_and_conflicts_are_guards() -> None:
    assert edits("SELECT 1 FROM t LIMIT :limit FOR UPDATE SKIP LOCKED") == {
        "LIMIT: :limit": "SELECT 1 FROM t LIMIT (:limit) + 1000 FOR UPDATE SKIP LOCKED",
        "lock: FOR UPDATE SKIP LOCKED": "SELECT 1 FROM t LIMIT :limit ",
        "lock: SKIP LOCKED": "SELECT 1 FROM t LIMIT :limit FOR UPDATE ",
    }
    assert edits("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING") == {
        "conflict: ON CONFLICT DO NOTHING": "INSERT INTO t VALUES (1) "
    }


def test_equal_guards_of_a_file_have_names_of_their_own_and_comments_are_no_part_of_them() -> None:
    text = "SELECT 1 FROM t WHERE a -- why\n AND b UNION SELECT 2 FROM t WHERE a AND b"
    assert list(edits(text)) == ["AND: a", "AND: b", "AND: a #2", "AND: b #2"]


@pytest.mark.parametrize("store", sorted(mutate_sql.TESTS))
def test_every_statement_of_a_store_can_be_read(store: str) -> None:
    files = sorted(mutate_sql.queries(store).glob("*.sql"))
    known = {file.name: {guard.name for guard in guards(file.read_text(encoding="utf-8"))} for file in files}
    assert sum(map(len, known.values())) > 10 * len(files)
    for name, file in ((name, file) for file, names in mutate_sql._killers(store).items() for name in names):
        assert name in known[file]


def test_what_is_excused_exists_and_has_a_reason() -> None:
    for store in mutate_sql.TESTS:
        there = {(file, guard.name) for file, guard in mutate_sql._guards(store)}
        texts = {(file, f"{name.partition(' #')[0]} #*") for file, name in there}
        for file, excuses in mutate_sql._equivalent(store).items():
            for name, reason in excuses.items():
                assert len(reason) > 20
                assert any((each, name) in there | texts for each in ({file} if file != "*" else {file for file, _ in there}))


def test_killers_are_tests_of_files_that_exist() -> None:
    for store in mutate_sql.TESTS:
        for known in mutate_sql._killers(store).values():
            assert all((mutate_sql.ROOT / test.partition("::")[0]).exists() for test in known.values())
    assert json.loads(Path(mutate_sql.KNOWN / "killers_sqlite.json").read_text(encoding="utf-8"))
