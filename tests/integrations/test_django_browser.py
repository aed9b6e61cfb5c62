"""Django's admin and the dashboard of a project in Chromium, under ASGI and WSGI: what each user sees and does by permission."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.conftest import browser as browser
from tests.integrations.django_site import PASSWORD, SECRET

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(120)]
PROJECT = Path(__file__).with_name("django_site.py")
LIST = "/admin/holdfast/jobs/"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
REFUSED = "Failed to load resource: the server responded with a status of 403 (Forbidden)"
"""What Chromium itself reports of a page that is refused."""


@pytest.fixture(params=["asgi", "wsgi"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Run the project; return its address."""
    words = [sys.executable, str(PROJECT), str(tmp_path), request.param]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address
        yield address
        process.terminate()


@pytest.fixture
def page(browser: "Browser", site: str) -> "Iterator[Page]":
    """Open a browser without cookies. Its pages ask no other host, break no policy and report no error, but for what is refused."""
    context, reports = browser.new_context(base_url=site), list[str]()
    context.add_init_script("addEventListener('securitypolicyviolation', (each) => console.error(each.violatedDirective))")
    context.on("console", lambda message: reports.append(f"{message.location['url']}: {message.text}") if message.type in ("error", "warning") else None)
    context.on("weberror", lambda error: reports.append(str(error.error)))
    context.on("request", lambda request: reports.append(request.url) if not request.url.startswith((site, "data:")) else None)
    page, refused = context.new_page(), list[str]()
    context.on("response", lambda answer: refused.append(answer.url) if answer.status == 403 else None)
    yield page
    context.close()
    assert reports == [REFUSED] * len(refused)


def _sign_in(page: "Page", name: str, path: str) -> None:
    """Open a page as a stranger, and log in where it leads to."""
    page.goto(path)
    assert "/admin/login/?next=" in page.url
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"**{path}")


def _job(page: "Page", task: str) -> str:
    """Return the id of the job of a task, as the list of the admin has it."""
    return page.locator("#result_list tr", has_text=task).locator("th").inner_text()


def _audited(page: "Page") -> list[list[str]]:
    """Return who did what, the newest first, as the page of the audit has it."""
    page.goto("/work/audit")
    return [[row.locator("td").nth(cell).inner_text() for cell in (1, 2)] for row in page.locator("main tbody tr").all()]


def test_an_administrator_acts_in_the_admin_and_on_the_dashboard(page: "Page") -> None:
    _sign_in(page, "root", "/admin/")
    page.get_by_role("link", name="Jobs", exact=True).click()
    failed, waiting = _job(page, "mail"), _job(page, "label")
    page.get_by_label(f"{failed}").check()
    page.get_by_label("Action").select_option("retry")
    page.get_by_role("button", name="Go").click()
    page.get_by_text("retry: 1 jobs, now available").wait_for()
    page.get_by_role("link", name=waiting).click()
    page.wait_for_url(f"**/work/jobs/{waiting}")
    page.get_by_role("link", name="Cancel").click()
    page.get_by_label("Reason").fill("sold out")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"**/work/jobs/{waiting}")
    print(page.locator("main").inner_text())
    print(_audited(page))
    print(page.locator("main").inner_text())
    assert _audited(page) == [["root", "cancel"], ["root", "retry"]]
