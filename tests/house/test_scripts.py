"""The rules of the house: each one refuses what it should, and lets the rest through."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_docs, check_sizes

ROOT = Path(__file__).parents[2]


def sizes(tmp_path: Path, source: str, name: str = "room.py") -> list[str]:
    path = tmp_path / name
    path.write_text(source)
    return [advice.removeprefix(f"{path}:") for advice in check_sizes.check_file(path)]


def function(body_lines: int, docstring: str = "", first: str = "") -> str:
    return f"def long():{first}\n{docstring}" + "    x = 1\n" * body_lines


# --- sizes


def test_file_of_400_lines_passes_and_one_more_does_not(tmp_path: Path) -> None:
    assert sizes(tmp_path, "x = 1\n" * 400) == []
    assert sizes(tmp_path, "x = 1\n" * 401) == ["1: 401 lines, at most 400: move one noun to a file of its own"]


def test_sql_counts_as_a_file(tmp_path: Path) -> None:
    assert len(sizes(tmp_path, "SELECT 1;\n" * 401, "claim.sql")) == 1
    assert sizes(tmp_path, "-- size: one table\n" + "SELECT 1;\n" * 401, "claim.sql") == []


def test_file_is_exempt_with_a_reason_near_its_top(tmp_path: Path) -> None:
    assert sizes(tmp_path, "# size: one table\n" + "x = 1\n" * 400) == []
    assert len(sizes(tmp_path, "# size:\n" + "x = 1\n" * 400)) == 1
    assert len(sizes(tmp_path, "x = 1\n" * 400 + "# size: one table\n")) == 1


def test_function_of_40_lines_passes_and_one_more_does_not(tmp_path: Path) -> None:
    assert sizes(tmp_path, function(39)) == []
    assert sizes(tmp_path, function(40)) == ["1: long has 41 lines, at most 40: give a step inside it a name"]
    assert len(sizes(tmp_path, "class Room:\n    async " + function(40).replace("\n    ", "\n        "))) == 1


def test_docstring_is_not_counted(tmp_path: Path) -> None:
    assert sizes(tmp_path, function(39, '    """Why.\n\n    More.\n    """\n')) == []


def test_function_is_exempt_with_a_reason_at_its_head(tmp_path: Path) -> None:
    assert sizes(tmp_path, function(40, first="  # size: one match")) == []
    assert sizes(tmp_path, function(40, '    """Why."""\n    # size: one match\n')) == []
    assert len(sizes(tmp_path, function(40) + "    # size: too late\n")) == 1


def test_six_parameters_pass_and_one_more_does_not(tmp_path: Path) -> None:
    assert sizes(tmp_path, "class Room:\n    def build(self, a, b, c, d, e, f, *, g, h): ...\n") == []
    (advice,) = sizes(tmp_path, "def build(a, b, /, c, d, e, f, g): ...\n")
    assert advice.startswith("1: build takes 7 parameters, at most 6")


def test_size_script_fails_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_sizes.main(tmp_path) == 0
    (tmp_path / "room.py").write_text(function(40))
    assert check_sizes.main(tmp_path) == 1
    assert f"{tmp_path / 'room.py'}:1: long has 41 lines" in capsys.readouterr().out


# --- documents


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "src/holdfast/_core").mkdir(parents=True)
    (tmp_path / "src/holdfast/_core/job.py").touch()
    (tmp_path / "tests/core").mkdir(parents=True)
    (tmp_path / "CONTRIBUTING.md").write_text("| job | `_core/job.py`, `make test` | `tests/core` |\n")
    return tmp_path


def test_map_names_only_what_exists(clone: Path) -> None:
    assert check_docs.main(clone) == 0
    (clone / "CONTRIBUTING.md").write_text("words\n| job | `_core/gone.py` | `tests/gone/` |\n")
    assert [advice.split(" does not")[0] for advice in check_docs.check_map(clone)] == [
        "CONTRIBUTING.md:2: _core/gone.py",
        "CONTRIBUTING.md:2: tests/gone/",
    ]
    assert check_docs.main(clone) == 1


@pytest.mark.parametrize("link", ["[a](gone.md)", "[a](gone.md#part)", '[a](gone.md "title")', '<img src="gone.svg">'])
def test_relative_links_lead_somewhere(clone: Path, link: str) -> None:
    (clone / "docs/how").mkdir(parents=True)
    (clone / "docs/how/page.md").write_text(f"\n{link}\n")
    (advice,) = check_docs.check_links(clone)
    assert advice.startswith("docs/how/page.md:2: gone.")


@pytest.mark.parametrize(
    "text",
    ["[a](CONTRIBUTING.md#part)", "[a](#part)", "[a](https://example.org/x)", "[a](src/holdfast)", "```\n[a](gone.md)\n```"],
)
def test_other_links_are_left_alone(clone: Path, text: str) -> None:
    (clone / "README.md").write_text(text)
    assert list(check_docs.check_links(clone)) == []


# --- ruff's own rules, as this repository sets them


def lint(path: str, source: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename", path, "-"]
    return subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True).stdout


CLOCKS = """
import asyncio, os, random, secrets, time, uuid
from datetime import datetime
time.time(), time.monotonic(), time.monotonic_ns(), time.perf_counter(), time.clock_gettime(7), time.sleep(1)
datetime.now(), datetime.utcnow(), asyncio.sleep(1)
random.random(), random.choice([1]), random.uniform(0, 1), random.randint(0, 1), random.getrandbits(1)
uuid.uuid1(), uuid.uuid4(), os.urandom(1), secrets.token_hex()
"""


def test_time_and_chance_are_banned_and_the_ban_names_the_replacement() -> None:
    banned = [line for line in lint("src/holdfast/_engine/anything.py", CLOCKS).splitlines() if "TID251" in line]
    assert len(banned) == 18  # 17 calls, and the import of secrets
    assert all("_system/clock.py" in line for line in banned)


@pytest.mark.parametrize("path", ["src/holdfast/_system/clock.py", "src/holdfast/app.py", "tests/e2e/test_anything.py"])
def test_real_time_is_allowed_where_it_belongs(path: str) -> None:
    assert "TID251" not in lint(path, CLOCKS)


def test_import_inside_a_function_is_refused_except_behind_a_url_scheme() -> None:
    source = "def load() -> object:\n    import apsw\n\n    return apsw\n"
    assert "PLC0415" in lint("src/holdfast/_engine/anything.py", source)
    assert "PLC0415" not in lint("src/holdfast/stores/anything/store.py", source)


def test_relative_import_is_refused() -> None:
    assert "TID252" in lint("src/holdfast/_core/anything.py", "from .job import NewJob\n\n__all__ = ['NewJob']\n")


def test_a_page_of_more_than_200_lines_is_named(clone: Path) -> None:
    (clone / "docs" / "how-to").mkdir(parents=True)
    (clone / "docs" / "short.md").write_text("one line\n" * 200)
    (clone / "docs" / "how-to" / "long.md").write_text("one line\n" * 201)
    (advice,) = check_docs.check_lengths(clone)
    assert advice.startswith("docs/how-to/long.md: 201 lines, at most 200: ")


def test_a_promise_whose_test_does_not_exist_is_named(clone: Path) -> None:
    page, test = clone / "docs" / "promises.md", clone / "tests" / "core" / "test_a.py"
    test.write_text("def test_it_holds() -> None: ...\n")
    page.parent.mkdir(exist_ok=True)
    page.write_text("| it holds | `core/test_a: it_holds` · `core/test_a: it_lasts` · `contracts/gone: it_holds` |\n")
    assert [advice.split(" does not")[0] for advice in check_docs.check_promises(clone)] == [
        "docs/promises.md:1: core/test_a: it_lasts",
        "docs/promises.md:1: contracts/gone: it_holds",
    ]
