"""The models of the token protocol are checked as they claim: what was not searched to its end proves nothing.

`make models` runs all of them; here the smallest runs, and what the script makes of a verifier's words.
"""

import re
import tempfile
from pathlib import Path

import pytest

from scripts import check_models
from scripts.check_models import Found, Search

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "models/checks.toml"
SMALL = """
    [clocks]
    says = "whose code runs when"
    runs = [{ flags = "" }]
    mutants_in = ""

    [clocks.mutants]
"""
HOLDS = """
State-vector 52 byte, depth reached 466, errors: 0
    64523 states, stored
   263912 transitions (= stored+matched)
pan: elapsed time 0.06 seconds
"""
BREAKS = "pan:1: assertion violated  !(first_runs) (at depth 30)\n" + HOLDS.replace("errors: 0", "errors: 1")


def found(output: str) -> Found:
    return check_models.read(output)


def search(*, mutant: str | None = None) -> Search:
    return Search("clocks", ROOT / "models/clocks.pml", "nobody kills", (), mutant=mutant)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a separate table beside the models."""
    for model in (ROOT / "models").glob("*.pml"):
        (tmp_path / model.name).symlink_to(model)
    (tmp_path / "checks.toml").write_text(SMALL)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "checks.toml"


def test_a_search_to_the_end_without_an_error_holds() -> None:
    assert found(HOLDS) == Found(states=64523, transitions=263912, depth=466, seconds=0.06)
    is_right, line = check_models.verdict(search(), found(HOLDS))
    assert is_right
    assert line == "model  clocks: holds: 64,523 states, 263,912 transitions, depth 466, 0.1 s"


def test_a_broken_assertion_is_wrong_for_a_model_and_right_for_a_mutant() -> None:
    assert found(BREAKS).broken == "assertion violated  !(first_runs)"
    assert not check_models.verdict(search(), found(BREAKS))[0]
    assert check_models.verdict(search(mutant="NO_GUARD"), found(BREAKS))[0]


def test_a_mutant_that_passes_is_named_with_what_it_removes() -> None:
    is_right, line = check_models.verdict(search(mutant="NO_GUARD"), found(HOLDS))
    assert not is_right
    assert line.startswith("mutant clocks NO_GUARD: NOT CAUGHT in 64,523 states")
    assert "nobody kills, and no assertion notices" in line


@pytest.mark.parametrize(
    "answer",
    [
        "error: max search depth too small" + HOLDS,
        "pan: reached -DMEMLIM bound" + HOLDS,
        "pan: out of memory" + HOLDS,
        "Warning: Search not completed" + HOLDS,
        "Segmentation fault",
        "",
    ],
)
@pytest.mark.parametrize("mutant", [None, "NO_GUARD"])
def test_a_search_that_was_cut_short_is_wrong_for_both(answer: str, mutant: str | None) -> None:
    assert found(answer).cut
    assert not check_models.verdict(search(mutant=mutant), found(answer))[0]


def test_every_mutant_of_the_models_is_in_the_table_and_every_one_of_the_table_is_in_its_model() -> None:
    switches = {"FAULTS", "RESCUERS", "OPERATOR", "FAILOVER", "WORKERS", "FAILOVERS", "READS_JOB_BACK"}
    listed: dict[str, set[str]] = {}
    for each in check_models.searches(TABLE):
        listed.setdefault(each.file.name, set()).update({each.mutant} if each.mutant else ())
    for model in (ROOT / "models").glob("*.pml"):
        tested = re.findall(r"^#\s*(?:if|elif|ifdef|ifndef)\b.*", model.read_text(), re.MULTILINE)
        named = {name for line in tested for name in re.findall(r"\b[A-Z][A-Z_]+\b", line)}
        assert named - switches == listed[model.name]


def test_a_real_run_is_exhaustive_and_a_real_mutant_is_caught_by_a_named_property(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(SMALL + '    NO_GUARD = "nobody kills"\n')
    assert check_models.main(table) == 0
    model, mutant, closing = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"model  clocks: holds: [\d,]+ states, [\d,]+ transitions, depth \d+, [\d.]+ s", model)
    assert re.fullmatch(r"mutant clocks NO_GUARD: caught after [\d,]+ states by S8: .+ \(clocks.pml:\d+\)", mutant)
    assert closing.endswith("1 of 1 mutants caught; 0 wrong")


def test_a_guard_whose_absence_no_test_notices_fails(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(SMALL + '    NOTHING_OF_THE_KIND = "nothing is taken out"\n')
    assert check_models.main(table) == 1
    assert "NOTHING_OF_THE_KIND: NOT CAUGHT" in capsys.readouterr().out


def test_a_model_that_breaks_fails_and_names_the_command_that_shows_the_run(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(SMALL.replace('flags = ""', 'flags = "NO_GUARD"'))
    assert check_models.main(table) == 1
    out = capsys.readouterr().out
    assert "model  clocks NO_GUARD: BROKEN: S8: " in out
    assert "see the run: cd " in out


def test_without_spin_it_fails_and_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_models, "TOOLS", ("spin-that-nobody-has",))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_models.main(TABLE) == 1
    assert "(apt-get install spin-that-nobody-has)" in capfd.readouterr().out.splitlines()[-1]


def test_what_is_asked_for_and_not_there_is_named(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_models.main(table, ["ownerhsip"]) == 1
    assert "checks.toml names nothing of ownerhsip" in capsys.readouterr().out


def test_words_choose_models_runs_and_mutants() -> None:
    assert {each.model for each in check_models.searches(TABLE, ["keys"])} == {"keys"}
    assert [each.mutant for each in check_models.searches(TABLE, ["NO_GUARD"])] == ["NO_GUARD"]
