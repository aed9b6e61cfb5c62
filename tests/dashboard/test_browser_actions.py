"""Actions in Chromium: by mouse and by keyboard, with and without script, and pages that follow what happens."""

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dashboard.showroom import furnish
from tests.dashboard.test_browser import RULES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]
SOON = 1500.0
"""Milliseconds within which a page shows a change."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """Run `holdfast dashboard --actions` on a store; return the link that it prints."""
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps an event loop in this one
        url = thread.submit(furnish, tmp_path).result()
    words = [sys.executable, "-m", "holdfast.cli", "dashboard", "--url", url, "--port", "0", "--actions"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0]
        process.terminate()


def _main(page: "Page") -> str:
    return page.locator("main").inner_text()


@pytest.mark.parametrize("has_script", [True, False])
def test_a_job_is_cancelled_by_keyboard(browser: "Browser", link: str, has_script: bool) -> None:
    context = browser.new_context(java_script_enabled=has_script)
    page = context.new_page()
    page.goto(link)
    page.goto(link.partition("enter")[0] + "jobs?state=available&queue=imports")
    page.locator("main tbody a").first.press("Enter")
    page.get_by_role("link", name="Cancel").press("Enter")
    page.get_by_label("Reason").press("Enter")  # a form is sent from its field
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}$"))
    assert "cancelled" in _main(page)
    context.close()


STEPS = (
    ("/jobs?state=available&queue=imports", "import_catalog", "Reschedule", {"Due after": "10m"}),
    ("/jobs?state=available&queue=imports", "import_catalog", "Cancel", {}),
    ("/jobs?state=cancelled", "import_catalog", "Delete", {}),
    ("/jobs?state=failed", "sync_orders", "Retry", {}),
    ("/queues/imports", "", "Pause", {"Reason": "a release"}),
    ("/queues/imports", "", "Resume", {}),
    ("/queues/mail", "", "Purge", {}),
    ("/schedules/refresh", "", "Run now", {}),
    ("/schedules/refresh", "", "Pause", {"Reason": "a release"}),
    ("/schedules/refresh", "", "Resume", {}),
    ("/workers", "elsewhere-7-0000", "Drain", {}),
)
"""Pages of actions, with the link to follow first, the button, and what is typed."""


def test_each_action_is_taken_by_keyboard(browser: "Browser", link: str) -> None:
    context = browser.new_context()
    page, site = context.new_page(), link.partition("/enter")[0]
    page.goto(link)
    for path, first, name, typed in STEPS:
        page.goto(site + path)
        if first:
            _open(page, page.get_by_role("link", name=first, exact=True).first)
        _open(page, page.get_by_role("link", name=name, exact=True).first)
        for label, words in typed.items():
            page.get_by_label(label).focus()
            page.keyboard.type(words)
        _open(page, page.get_by_role("button", name=name))
        assert "/actions/" not in page.url, (path, name, _main(page))
    page.goto(f"{site}/audit")
    done = {str(each) for each in page.locator("main tbody td:nth-child(3)").all_inner_texts()}
    schedule = {"schedule.run", "schedule.pause", "schedule.resume"}
    assert done >= {"reschedule", "cancel", "delete", "retry", "pause", "resume", "purge", "drain", *schedule}
    context.close()


def _open(page: "Page", what: "Locator") -> None:
    """Press Enter on a link or a button, and wait for the page that follows."""
    what.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_confirmations_are_accessible(browser: "Browser", link: str) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    context = browser.new_context()
    page, reports = context.new_page(), list[str]()
    page.on("console", lambda message: reports.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: reports.append(str(error)))
    page.goto(link)
    site = link.partition("/enter")[0]
    paths = [
        "/queues",
        "/schedules",
        "/errors",
        "/jobs?state=failed",
        "/actions/queue/pause?name=mail",
        "/actions/queue/purge?name=mail",
    ]
    page.goto(f"{site}/jobs?state=failed")
    paths += [str(each.get_attribute("href")) for each in page.locator("main .acts a").all()]
    for path in paths:
        answer = page.goto(site + path)
        assert answer is not None
        assert answer.status == 200, path
        found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert [(path, each["id"]) for each in found] == []
    assert len(paths) > 7
    assert reports == []
    context.close()


def test_an_open_page_shows_what_another_did(browser: "Browser", link: str) -> None:
    context = browser.new_context()
    watching, acting = context.new_page(), context.new_page()
    acting.goto(link)
    site = link.partition("/enter")[0]
    with watching.expect_response("**/api/v1/events"):
        watching.goto(f"{site}/queues")
    assert "paused" not in watching.locator("main tr", has_text="imports").inner_text()
    acting.goto(f"{site}/actions/queue/pause?name=imports")
    acting.get_by_label("Reason").fill("the shop is closed")
    acting.get_by_role("button", name="Pause").click()
    acting.wait_for_url("**/queues")
    watching.locator("main tr", has_text="imports").get_by_text("paused").wait_for(timeout=SOON)
    context.close()


def test_retry_these_runs_to_its_end(browser: "Browser", link: str) -> None:
    page = browser.new_context().new_page()
    page.goto(link)
    page.goto(link.partition("enter")[0] + "errors")
    page.get_by_role("link", name="Retry these").first.click()
    assert "1 job" in page.locator("h1").inner_text()
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url("**/operations/*")
    page.get_by_text("completed").wait_for(timeout=10_000)
    assert "1 of 1 jobs changed" in _main(page)
    page.context.close()


def test_rows_wait_while_one_is_used_and_focus_typing_and_marks_stay(browser: "Browser", link: str) -> None:
    context, site = browser.new_context(), link.partition("/enter")[0]
    watching, acting = context.new_page(), context.new_page()
    acting.goto(link)
    acting.goto(f"{site}/actions/queue/pause?name=imports")
    token = str(acting.locator("input[name=token]").get_attribute("value"))

    def enqueue(task: str) -> None:
        body, headers = {"task": task}, {"x-holdfast-token": token, "origin": site}
        assert acting.request.post(f"{site}/api/v1/jobs", data=body, headers=headers).status == 201

    with watching.expect_response("**/api/v1/events"):
        watching.goto(f"{site}/jobs")
    watching.locator("details.conditions summary").click()
    watching.get_by_label("queue").fill("half a wor")
    first = str(watching.locator("tbody tr").first.get_attribute("id"))
    for key in ("Escape", "Tab"):
        watching.keyboard.press(key)
    watching.evaluate("document.activeElement.blur()")
    for key in ("j", "x", "j", "k"):
        watching.keyboard.press(key)
    assert watching.locator(".selected").inner_text().endswith(first[1:])
    enqueue("newcomer")
    enqueue("newcomer")
    newer = watching.get_by_role("button", name="2 newer")
    newer.wait_for(timeout=2 * SOON)
    assert watching.locator("tbody tr").first.get_attribute("id") == first
    assert watching.evaluate("document.activeElement.closest('tr').id") == first
    assert watching.get_by_label("queue").input_value() == "half a wor"
    assert watching.locator("details.conditions").get_attribute("open") is not None
    newer.click()
    watching.locator("tbody tr", has_text="newcomer").nth(1).wait_for(timeout=SOON)
    assert watching.locator(f"#{first}.sel").count() == 1
    watching.keyboard.press("g")
    watching.keyboard.press("e")
    watching.wait_for_url("**/errors")
    context.close()


def test_a_theme_is_chosen_and_no_page_shows_another_one_first(browser: "Browser", link: str) -> None:
    context, site = browser.new_context(color_scheme="light"), link.partition("/enter")[0]
    page = context.new_page()
    page.goto(link)
    page.get_by_role("link", name="dark").click()
    page.goto(f"{site}/queues")
    scheme = "getComputedStyle(document.documentElement).colorScheme"
    assert (page.evaluate(scheme), page.content().index('data-theme="dark"') < 100) == ("dark", True)
    page.get_by_role("link", name="auto").click()
    page.wait_for_url("**/queues")
    assert page.evaluate(scheme) == "light dark"
    context.close()
