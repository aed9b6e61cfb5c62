"""Tab completion: what is offered, and that it is silent when there is nothing to offer."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.commands import root
from tests.cli.support import enqueue, run, url


def offered(line: str) -> list[str]:
    """Return what bash is offered for the word that is being typed at the end of the line."""
    words = line.split(" ")
    environment = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(root, [], prog_name="holdfast", env=environment)
    assert done.stderr == ""
    return [answer.split(",", 1)[1] for answer in done.stdout.splitlines() if answer]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_holdfast(shell: str) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in done.stdout


def test_commands_and_states_are_offered(folder: Path) -> None:
    assert sorted(offered("holdfast jobs re")) == ["reschedule", "retry"]
    assert offered("holdfast jobs list --state s") == ["scheduled"]


def test_apps_are_found_without_importing_anything(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "__init__.py").write_text("")
    (folder / "deep" / "tasks.py").write_text("import holdfast\nraise SystemExit\nmine: object = holdfast.App('memory://')\n")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "other.py").write_text("app = App()\n")
    assert offered("holdfast worker ") == ["deep.tasks:mine", "shop", "shop:empty"]
    assert offered("holdfast jobs list --app sho") == ["shop", "shop:empty"]


def test_queues_tasks_and_jobs_come_from_the_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = enqueue()
    assert offered("holdfast jobs list --app shop --task an") == ["analyze"]
    assert offered(f"holdfast jobs list --url {url(folder)} --queue ") == ["default"]
    monkeypatch.setenv("HOLDFAST_URL", url(folder))
    assert offered("holdfast queues pause ") == ["default"]
    assert offered("holdfast jobs show ") == [job[-6:]]


def test_jobs_are_completed_by_the_end_of_their_id_or_by_its_beginning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", url(folder))
    jobs = [enqueue(), enqueue()]
    assert offered("holdfast jobs cancel ") == [job[-6:] for job in reversed(jobs)]
    assert offered(f"holdfast jobs cancel {jobs[0][-6:-1].upper()}") == [jobs[0][-6:]]
    assert offered(f"holdfast jobs show {jobs[1][:-1]}") == [jobs[1]]


def test_a_store_that_is_not_there_is_not_made(folder: Path) -> None:
    assert offered("holdfast jobs list --url sqlite:///nowhere.db --queue ") == []
    assert not (folder / "nowhere.db").exists()


@pytest.mark.parametrize(
    "source", ["raise RuntimeError('x')", "print('noise')\nimport sys\nprint('x', file=sys.stderr)\nsys.exit(3)"]
)
def test_code_that_fails_offers_nothing_and_prints_nothing(folder: Path, source: str) -> None:
    (folder / "broken.py").write_text(source)
    assert offered("holdfast jobs list --app broken --queue ") == []
