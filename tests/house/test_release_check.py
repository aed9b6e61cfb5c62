"""`make release-check` finds what must not be released; its builds and installs are left to the command."""

import json
from pathlib import Path

import pytest

from holdfast._core.release import VERSION
from scripts import release_check
from scripts.release_check import CORE, LARGEST, ROOT, Finding

NAMES = [
    "holdfast/py.typed",
    "holdfast/stores/a.sql",
    *(f"holdfast-1.2.dist-info/{each}" for each in ("licenses/LICENSE", "entry_points.txt")),
]
ENTRY = "# Changelog\n\n## [Unreleased]\n\n## [1.2] - 2030-01-31\n\n### Changed\n\n- A line.\n\n## [1.1] - 2029-01-31\n"


def wrong(found: object) -> list[str]:
    findings = [found] if isinstance(found, Finding) else list(found)  # type: ignore[call-overload]
    return [str(each) for each in findings if each.is_right is False]


def test_the_version_is_written_once_and_the_chart_has_it() -> None:
    assert release_check.version_of(ROOT) == VERSION
    assert wrong(release_check.check_versions(ROOT, VERSION)) == []
    assert len(wrong(release_check.check_versions(ROOT, "9.9"))) == 1


def test_a_second_version_is_found(tmp_path: Path) -> None:
    (tmp_path / "deploy/helm/holdfast").mkdir(parents=True)
    (tmp_path / "deploy/helm/holdfast/Chart.yaml").write_text('version: 1.2\nappVersion: "1.1"\n')
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n')
    assert len(wrong(release_check.check_versions(tmp_path, "1.2"))) == 2


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        (ENTRY, True),
        (ENTRY.replace("- 2030-01-31", ""), False),
        (ENTRY.replace("- A line.", ""), False),
        (ENTRY.replace("[1.2]", "[1.20]"), False),
        ("## [Unreleased]\n\n- A line.\n", False),
    ],
)
def test_the_changelog_needs_a_dated_entry_with_a_line(text: str, is_right: bool) -> None:
    assert release_check.check_changelog(text, "1.2").is_right is is_right


def test_a_wheel_with_all_that_it_needs_is_right() -> None:
    assert wrong(release_check.check_names(NAMES, "1.2")) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_that_lacks_a_file_is_wrong(name: str) -> None:
    assert len(wrong(release_check.check_names([each for each in NAMES if each != name], "1.2"))) == 1


@pytest.mark.parametrize("name", ["holdfast/tests/a.py", "holdfast/conftest.py", "holdfast/test_a.py"])
def test_a_wheel_with_tests_is_wrong(name: str) -> None:
    assert name in wrong(release_check.check_names([*NAMES, name], "1.2"))[0]
    assert wrong(release_check.check_names([*NAMES, "holdfast/testing/points.py"], "1.2")) == []


def test_a_wheel_with_files_beside_the_package_is_wrong() -> None:
    assert "proof/world.py" in wrong(release_check.check_names([*NAMES, "proof/world.py"], "1.2"))[0]


def test_builds_that_differ_and_wheels_that_grow_are_wrong(tmp_path: Path) -> None:
    for folder, text in (("one", "a"), ("two", "a"), ("three", "b")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.whl").write_text(text)
    one, two, three = (tmp_path / folder / "x.whl" for folder in ("one", "two", "three"))
    assert wrong(release_check.check_same([one], [two])) == []
    assert len(wrong(release_check.check_same([one], [three]))) == 1
    assert wrong(release_check.check_size(LARGEST, 1)) == []
    assert len(wrong(release_check.check_size(LARGEST + 1, 1))) == 1


def test_a_bill_without_a_package_of_the_core_is_wrong() -> None:
    bill = {"bomFormat": "CycloneDX", "components": [{"name": name} for name in CORE]}
    assert wrong(release_check.check_components(bill)) == []
    assert "msgspec" in wrong(release_check.check_components({**bill, "components": [{"name": "click"}]}))[0]
    assert wrong(release_check.check_components({**bill, "bomFormat": "SPDX"}))
    assert wrong(release_check.check_components(json.loads("{}")))


def test_a_python_that_is_not_here_is_neither_right_nor_wrong() -> None:
    assert release_check.interpreters(["2.1"]) == {"2.1": None}
    assert str(Finding(None, "Python 2.1 is not here")) == "– Python 2.1 is not here"
    assert str(Finding(False, "a", "b")) == "✗ a: b"
    assert str(Finding(True, "a", "b")) == "✓ a"
