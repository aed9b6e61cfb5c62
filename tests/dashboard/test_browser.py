"""The pages of the dashboard in Chromium: accessible, quiet, and whole without script, in light and dark, on a desk and on a phone."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from tests.dashboard.showroom import furnish

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]
PAGES = (
    "/",
    "/?range=24h",
    "/jobs",
    "/jobs?state=failed",
    "/errors",
    "/queues",
    "/workers",
    "/schedules",
    "/workflows",
    "/rows",
    "/limits",
    "/check",
)
SCREENS = {"desk": (1360, 900), "phone": (390, 844)}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module", params=["furnished", "empty"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `holdfast dashboard` on a store; return the address of its first page."""
    folder = tmp_path_factory.mktemp("dashboard")
    make = furnish if request.param == "furnished" else _empty
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps an event loop in this one
        url = thread.submit(make, folder).result()
    words = [sys.executable, "-m", "holdfast.cli", "dashboard", "--url", url, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0].rstrip("/")
        process.terminate()


def _empty(folder: Path) -> str:
    app = App(f"sqlite:///{folder}/jobs.db")
    app.migrate()
    return app.settings.url


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_is_accessible_and_asks_no_other_host(browser: "Browser", site: str, scheme: Any, screen: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    width, height = SCREENS[screen]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    page, reports = context.new_page(), list[str]()
    page.on("console", lambda message: reports.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: reports.append(str(error)))
    page.on("request", lambda request: reports.append(request.url) if not request.url.startswith((site, "data:")) else None)
    for path in _pages(page, site):
        answer = page.goto(site + path)
        assert answer is not None
        assert answer.status == 200, path
        found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert [(path, each["id"], [node["html"][:200] for node in each["nodes"]][:2]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if folder := os.environ.get("HOLDFAST_SCREENSHOTS"):
            name = re.sub(r"\W+", "-", path).strip("-") or "overview"
            page.screenshot(path=f"{folder}/{name}-{scheme}-{screen}.png", full_page=True)
    assert reports == []
    context.close()


def test_without_script_each_page_has_the_same_words(browser: "Browser", site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for path in _pages(page, site):
        page.goto(site + path)
        assert page.locator("main h1").count() == 1, path
        assert page.locator("nav a").count() >= len(PAGES) - 2, path
    context.close()


def _pages(page: "Page", site: str) -> list[str]:
    """Return the paths of all pages, with those of workers, jobs, a workflow, errors, queues and schedules."""
    paths = list(PAGES)
    for start in ("/workers", "/jobs", "/workflows", "/errors", "/queues", "/schedules"):
        page.goto(site + start)
        for link in page.locator(f"main a[href^='{start}/']").all():
            path = link.get_attribute("href") or ""
            if path not in paths and len(paths) < len(PAGES) + 24:
                paths.append(path)
    return paths
