"""SQL files include parts, and pass words for the parameters of a part."""

import re
from pathlib import Path

import pytest

from holdfast.databases import queries

IN_EXCHANGE = (
    *(
        "exchange",
        "exchange_lanes",
        "settling",
        "nothing_settled",
        "walk",
        "due_lanes",
        "due_range",
        "others",
        "others_wanted",
        "due_ids",
        "due_chosen",
        "limited_lanes",
        "settle_plain",
        "settle_members",
    ),
)
"""Files that are parts of one statement, or have such parts, and use the parameters that ``exchange.sql`` declares."""

DUE = """-- due(job, now): whether its time has come.
-- Said of waiting jobs.
CASE
    WHEN job.at <= now THEN 1
END
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/due.sql").write_text(DUE)
    (tmp_path / "parts/first.sql").write_text(
        "-- first(jobs): the first that is due.\nSELECT 1 WHERE\n    -- include due(jobs, :now)\n"
    )
    return tmp_path


def whole(folder: Path, text: str) -> str:
    (folder / "query.sql").write_text(text)
    return queries.read(folder / "query.sql")


def test_a_part_is_included_with_the_words_that_are_given_for_its_parameters(folder: Path) -> None:
    text = "SELECT 1 WHERE a\n    AND -- include due(waiting, (SELECT now FROM clock))\n"
    assert whole(folder, text) == (
        "SELECT 1 WHERE a\n    AND CASE\n        WHEN waiting.at <= (SELECT now FROM clock) THEN 1\n    END\n"
    )


def test_text_after_an_include_on_its_line_stays(folder: Path) -> None:
    assert whole(folder, "SELECT (-- include due(job, 7) OR TRUE)") == "SELECT (CASE\n    WHEN job.at <= 7 THEN 1\nEND OR TRUE)"


def test_parts_include_parts(folder: Path) -> None:
    assert whole(folder, "-- include first(old)") == "SELECT 1 WHERE\n    CASE\n        WHEN old.at <= :now THEN 1\n    END"
    assert queries.parts_of(folder / "query.sql") == {"first", "due"}


def test_a_file_without_parts_is_not_changed(folder: Path) -> None:
    assert whole(folder, "SELECT 1; -- includes nothing (really)\n") == "SELECT 1; -- includes nothing (really)\n"
    assert queries.parts_of(folder / "query.sql") == frozenset()


@pytest.mark.parametrize("include", ["due(job)", "due(job, 1, 2)", "due()"])
def test_a_part_gets_as_many_words_as_it_has_parameters(folder: Path, include: str) -> None:
    with pytest.raises(ValueError, match=r"due.sql: its first line must be -- due\(…\), with \d parameters"):
        whole(folder, f"SELECT -- include {include}")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_each_part_of_a_store_is_included_by_two_places_at_least(store: str) -> None:
    folder = Path(queries.__file__).parents[1] / "stores" / store / "queries"
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.sql"))
    once = [path.stem for path in (folder / "parts").glob("*.sql") if text.count(f"-- include {path.stem}(") < 2]
    assert once == []


def test_parameters_are_numbered_in_the_order_in_which_comments_declare_them() -> None:
    comments = "-- Jobs of a task.\n-- :task, :limit; :age in seconds\n"
    text = "SELECT ':x', a::text -- :no\nWHERE b = :age AND t = :task LIMIT :limit + :age"
    assert queries.parameters_of(comments + text) == ["task", "limit", "age"]
    numbered = queries.numbered(comments + text).removeprefix(comments)
    assert numbered == "SELECT ':x', a::text -- :no\nWHERE b = $3 AND t = $1 LIMIT $2 + $3"


def test_a_parameter_that_is_not_declared_has_no_number() -> None:
    with pytest.raises(KeyError, match="age"):
        queries.numbered("-- :task\nSELECT :task, :age")


def test_each_statement_of_postgresql_uses_all_parameters_that_it_declares() -> None:
    folder = Path(queries.__file__).parents[1] / "stores/postgres/queries"
    for path in sorted(folder.glob("*.sql")):
        if path.stem not in IN_EXCHANGE:
            text = queries.read(path)
            used = {
                number
                for line in queries.numbered(text).splitlines()
                for number in re.findall(r"\$(\d+)", line.partition("--")[0])
            }
            assert len(used) == len(queries.parameters_of(text)), path.name
