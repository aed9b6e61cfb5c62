"""Guards of SQL are found, and the right edit removes each; what is stored about them names guards that exist."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts import mutate_sql
from scripts.sql_guards import guards


def edits(text: str) -> dict[str, str]:
    return {guard.name: guard.removed_from(text) for guard in guards(text)}


def test_each_condition_is_removed_by_itself() -> None:
    found = edits("DELETE FROM jobs WHERE id = :id AND state NOT IN ('a', 'b');")
    assert found == {
        "AND: id = :id": "DELETE FROM jobs WHERE (id = :id OR TRUE) AND state NOT IN ('a', 'b');",
        "AND: state NOT IN ('a', 'b')": "DELETE FROM jobs WHERE id = :id AND (state NOT IN ('a', 'b') OR TRUE);",
    }


def test_an_alternative_is_removed_by_being_false_and_the_group_as_a_whole() -> None:
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
def test_conditions_are_found_in_every_position(text: str, names: list[str]) -> None:
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


def test_what_a_template_leaves_open_is_one_expression_but_for_its_order() -> None:
    assert edits("SELECT {key} FROM {table} WHERE {due} AND t.{status} = {pending} {order} LIMIT 1") == {
        "AND: {due}": "SELECT {key} FROM {table} WHERE ({due} OR TRUE) AND t.{status} = {pending} {order} LIMIT 1",
        "AND: t.{status} = {pending}": "SELECT {key} FROM {table} WHERE {due} AND (t.{status} = {pending} OR TRUE) {order} LIMIT 1",
        "LIMIT: 1": "SELECT {key} FROM {table} WHERE {due} AND t.{status} = {pending} {order} LIMIT (1) + 1000",
    }


def test_equal_guards_of_a_file_have_different_names_and_comments_are_not_part_of_them() -> None:
    text = "SELECT 1 FROM t WHERE a -- why\n AND b UNION SELECT 2 FROM t WHERE a AND b"
    assert list(edits(text)) == ["AND: a", "AND: b", "AND: a #2", "AND: b #2"]


def test_a_part_that_is_included_is_one_guard_of_the_file_that_includes_it() -> None:
    part = "-- include due(job, least($1, cardinality($2::text[])))"
    assert edits(f"SELECT 1 FROM t WHERE a AND {part}") == {
        "AND: a": f"SELECT 1 FROM t WHERE (a OR TRUE) AND {part}",
        f"AND: {part}": f"SELECT 1 FROM t WHERE a AND ({part} OR TRUE)",
    }


@pytest.mark.parametrize("store", sorted(mutate_sql.TESTS))
def test_every_statement_of_a_store_can_be_read(store: str) -> None:
    folder = mutate_sql.queries(store)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.sql"))}
    known = {name: {guard.name for guard in guards(path.read_text(encoding="utf-8"))} for name, path in files.items()}
    assert sum(map(len, known.values())) > (2 if store.startswith("rows-") else 6) * len(files)
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


def test_killers_are_tests_that_exist_and_that_the_tool_runs() -> None:
    folders = ("tests/contract", "tests/stores", "tests/rows", "src/holdfast/testing/contracts")
    files = [path for folder in folders for path in (mutate_sql.ROOT / folder).glob("*.py")]
    names = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    for store in mutate_sql.TESTS:
        run = {file.partition("::")[0] for file in mutate_sql._tests(store, [{"is_only": False}])}
        for test in {test for known in mutate_sql._killers(store).values() for test in known.values()}:
            file, _, name = test.partition("[")[0].partition("::")
            assert file in run
            assert name.rpartition("::")[2] in {*names, "runTest"}


@pytest.mark.parametrize("store", sorted(mutate_sql.TESTS))
def test_of_every_guard_a_test_that_fails_without_it_is_known_or_why_there_is_none(store: str) -> None:
    assert mutate_sql.unjudged(store) == mutate_sql.open_guards(store), f"python -m scripts.mutate_sql --store {store} --new"


@dataclass
class Trial:
    """A run of the tool on the guards of one file; known killers, and then those that are searched, kill a given number."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    file: str = "start.sql"

    def __post_init__(self) -> None:
        self.found = [guard.name for file, guard in mutate_sql._guards("sqlite") if file == self.file]
        (self.folder / "equivalent.toml").write_text("")
        self.remember(dict.fromkeys(self.found, "tests/a.py::test_old"))
        self.monkeypatch.setattr(mutate_sql, "KNOWN", self.folder)

    def remember(self, killers: dict[str, str]) -> None:
        (self.folder / "killers_sqlite.json").write_text(json.dumps({self.file: killers}))

    def run(self, *options: str, kill: Callable[[mutate_sql.Mutant], str], fails_unmutated: str = "") -> int:
        def run(*given: Any, **depth: Any) -> Iterator[mutate_sql.Verdict]:
            for mutant in given[1]:
                yield {**dict.fromkeys(("where", "tests", "seconds"), 0), "name": mutant["name"], "killer": kill(mutant)}
            if given[1]:
                yield {"name": mutate_sql.CONTROL, "killer": fails_unmutated, "where": "call", "tests": 1, "seconds": 0}

        self.monkeypatch.setattr(mutate_sql, "_run", run)
        return mutate_sql.main(["--store", "sqlite", "--file", self.file, *options])


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(tmp_path, monkeypatch)


def first(mutant: mutate_sql.Mutant) -> str:
    return str(mutant["first"][0])


def test_guards_that_die_by_their_known_killers_are_all_well(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    assert trial.run("--known", kill=lambda mutant: first(mutant) if mutant["is_only"] else "") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"sqlite: {len(trial.found)} guards: {len(trial.found)} killed, 0 equivalent, 0 open; ")


def test_another_killer_is_searched_and_named_when_the_known_one_kills_no_more(
    trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    spared = trial.found[0]

    def kill(mutant: mutate_sql.Mutant) -> str:
        is_spared = mutant["name"] == f"start.sql  {spared}"
        return "" if is_spared and mutant["is_only"] else "tests/a.py::test_new" if is_spared else first(mutant)

    assert trial.run("--known", kill=kill) == 0
    assert f"{spared}: tests/a.py::test_old does not kill it; others are searched" in capsys.readouterr().out
    assert mutate_sql._killers("sqlite")["start.sql"][spared] == "tests/a.py::test_new"


@pytest.mark.parametrize("options", [("--known",), ("--new",), ()])
def test_a_guard_that_nothing_notices_is_open_and_remembered_as_such(
    trial: Trial, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = trial.found[-1]
    trial.remember({name: "tests/a.py::test_old" for name in trial.found if name != unknown})
    kill = lambda mutant: "" if mutant["name"].endswith(unknown) else first(mutant)  # noqa: E731
    assert trial.run(*options, kill=kill) == 1
    assert f"open: start.sql  {unknown}\n" in capsys.readouterr().out
    assert f"start.sql  {unknown}" in mutate_sql.unjudged("sqlite")


def test_a_killer_that_fails_without_a_mutant_proves_nothing(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    assert trial.run("--known", kill=first, fails_unmutated="tests/a.py::test_old") == 1
    assert "fails without any mutant" in capsys.readouterr().out
