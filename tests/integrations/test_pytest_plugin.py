"""The pytest plugin, as a separate project uses it."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest

SHOP = """
from holdfast import App, Backoff

app = App()
sent = []


@app.task(backoff=Backoff.fixed("1h"), max_attempts=2)
async def send(to: str, copies: int = 1) -> str:
    sent.append(to)
    if sent == ["bob"]:
        raise ConnectionError("no such mailbox")
    return to
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "pytest.ini").write_text("[pytest]\nholdfast_app = shop:app\naddopts = --strict-markers\n")
    return tmp_path


def run(project: Path, tests: str) -> str:
    """Run these tests without any other plugin, and return what pytest prints."""
    head = "import pytest\nfrom shop import app, send, sent\n"
    (project / "test_shop.py").write_text(head + dedent(tests))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("HOLDFAST_URL", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "holdfast.testing.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False).stdout


def test_each_test_has_an_empty_store_and_a_clock_that_it_advances(project: Path) -> None:
    printed = run(
        project,
        """
        @pytest.mark.parametrize("n", [1, 2])
        def test_delay(holdfast, n):
            assert holdfast.enqueued(send) == []
            handle = send.options(delay="1h").enqueue("ada")
            assert holdfast.run_due() == 0
            holdfast.clock.advance("1h")
            assert (holdfast.run_due(), handle.result()) == (1, "ada")

        def test_retry(holdfast):
            sent.clear()
            handle = send.enqueue("bob")
            assert (holdfast.run_due(), handle.get().state) == (1, "scheduled")
            holdfast.clock.advance("2h")
            assert (holdfast.run_due(), handle.result()) == (1, "bob")
            assert [each.name for each in holdfast.events if each.name in ("job.retried", "job.completed")] == [
                "job.retried", "job.completed"
            ]

        def test_after(request):
            assert app.settings.url == "memory://"
            assert app.jobs.list() == []
        """,
    )
    assert "4 passed" in printed, printed


def test_enqueued_finds_the_jobs_of_a_task_by_fields_of_their_payload(project: Path) -> None:
    printed = run(
        project,
        """
        def test_found(holdfast):
            first, second, _ = [send.enqueue(to, copies=2) for to in ("ada", "ada", "bob")]
            assert [each.id for each in holdfast.enqueued(send, to="ada")] == [first.id, second.id]
            assert [each.id for each in holdfast.enqueued("send", copies=2)][:1] == [first.id]
            assert holdfast.enqueued(send, copies=3) == holdfast.enqueued("other") == []
        """,
    )
    assert "1 passed" in printed, printed


def test_an_app_whose_store_is_open_returns_to_it(project: Path) -> None:
    printed = run(
        project,
        """
        outside = send.enqueue("eve")

        def test_within(holdfast_sqlite):
            assert app.settings.url.startswith("sqlite:///")
            handle = send.options(delay="1d").enqueue("ada")
            holdfast_sqlite.clock.advance("25h")
            assert (holdfast_sqlite.run_due(), handle.result()) == (1, "ada")

        def test_outside():
            assert [each.id for each in app.jobs.list()] == [outside.id]
        """,
    )
    assert "2 passed" in printed, printed


def test_postgres_is_started_for_the_test(project: Path) -> None:
    printed = run(
        project,
        """
        def test_real(holdfast_postgres):
            handle = send.enqueue("ada")
            assert (holdfast_postgres.run_due(), handle.result()) == (1, "ada")
        """,
    )
    assert "1 passed" in printed, printed


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ("app='shop:nope'", "module 'shop' has no attribute 'nope'"),
        ("app='nowhere:app'", "No module named 'nowhere'"),
        ("app='shop:sent'", "is a list, and no App"),
    ],
)
def test_an_app_that_cannot_be_found_is_named_with_the_remedy(project: Path, mark: str, problem: str) -> None:
    printed = run(project, f"@pytest.mark.holdfast({mark})\ndef test_it(holdfast): ...\n")
    assert problem in printed
    assert 'set holdfast_app = "package.module:app"' in printed


def test_it_is_installed_with_holdfast() -> None:
    assert [each.value for each in entry_points(group="pytest11", name="holdfast")] == ["holdfast.testing.pytest_plugin"]


def test_a_conftest_may_import_an_app_whose_url_is_not_set(project: Path) -> None:
    (project / "conftest.py").write_text("import pytest\nimport shop\n")
    printed = run(
        project,
        """
        def test_run(holdfast):
            assert send.enqueue("ada").get().state == "available"
        """,
    )
    assert "1 passed" in printed, printed
