"""Pages in states that are rare: a large store, one that is away, and a sender without the right."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App, every
from holdfast.http.tokens import new_token
from holdfast.testing.clock import FakeChance
from tests.dashboard.test_browser import RULES, SCREENS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]
NO_SERVER = "postgresql://postgres@127.0.0.1:1/none"
LARGEST = 80 * 1024
PAGES = ("/", "/jobs", "/jobs?state=failed", "/errors", "/queues", "/schedules", "/jobs?text=nothing", "/audit")


@contextmanager
def dashboard(*words: str) -> Iterator[str]:
    """Run `holdfast dashboard`; yield the address of its first page."""
    command = [sys.executable, "-m", "holdfast.cli", "dashboard", "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[^/\s]+", process.stdout.readline())
        try:
            assert found
            yield found[0]
        finally:
            process.terminate()


def _fill(folder: Path) -> str:
    app = App(f"sqlite:///{folder}/jobs.db")

    @app.task(max_attempts=1)
    async def work(number: int) -> None:
        if number % 3 == 0:
            raise type(f"Error{number % 150}", (Exception,), {})(f"door {number}")

    for queue in range(40):
        work.options(queue=f"queue-{queue:02}").enqueue_many([{"number": number} for number in range(queue, 60 + queue)])
        app.schedules.set(f"schedule-{queue:02}", every("5m"), work.bind(1))
    app.run_due()
    for queue in range(40):
        work.options(queue=f"queue-{queue:02}", key=f"tenant-{queue}").enqueue_many([{"number": number} for number in range(30)])
        app.queues.pause(f"queue-{queue:02}")
    app.close()
    return app.settings.url


def _violations(browser: "Browser", site: str, paths: Sequence[str], status: int, **options: Any) -> dict[str, int]:
    """Return the sizes of the pages, which are accessible in light and dark, on a desk and on a phone."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    sizes = {}
    for scheme, screen in (("light", "desk"), ("dark", "phone")):
        width, height = SCREENS[screen]
        schemes: Any = {"color_scheme": scheme}
        context = browser.new_context(viewport={"width": width, "height": height}, **schemes, **options)
        page = context.new_page()
        for path in paths:
            answer = page.goto(site + path)
            assert answer is not None
            assert answer.status == status, path
            sizes[path] = len(answer.body())
            found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
            assert [(path, each["id"], [node["html"][:200] for node in each["nodes"]][:2]) for each in found] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        context.close()
    return sizes


def test_pages_of_a_large_store_are_accessible_and_small(browser: "Browser", tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps an event loop in this one
        url = thread.submit(_fill, tmp_path).result()
    with dashboard("--url", url) as site:
        sizes = _violations(browser, site, PAGES, 200)
    assert max(sizes.values()) <= LARGEST, sizes


def test_pages_of_a_store_that_is_away_are_accessible(browser: "Browser") -> None:
    with dashboard("--url", NO_SERVER) as site:
        _violations(browser, site, ("/", "/jobs", "/check"), 503)


def test_pages_that_a_sender_may_not_open_are_accessible_and_name_the_right(browser: "Browser", tmp_path: Path) -> None:
    token, line = new_token("eve", "viewer", FakeChance(7))
    (tmp_path / "tokens").write_text(line)
    (tmp_path / "tokens").chmod(0o600)
    with ThreadPoolExecutor(1) as thread:
        url = thread.submit(_fill, tmp_path).result()
    with dashboard("--url", url, "--token-file", str(tmp_path / "tokens"), "--actions") as site:
        login = {"http_credentials": {"username": "eve", "password": token}}
        _violations(browser, site, ("/actions/queue/purge?name=queue-01",), 403, **login)
