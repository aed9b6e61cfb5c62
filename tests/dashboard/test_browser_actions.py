"""Actions in Chromium: by mouse and by keyboard, with and without script, and pages that follow what happens."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import App
from tests.dashboard.showroom import furnish
from tests.dashboard.test_browser import RULES, SCREENS
from tests.dashboard.watched import add_table

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]
WATCHED = "tests.dashboard.watched:app"
SOON = 1500.0
"""Milliseconds within which a page shows a change."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """Run `holdfast dashboard --actions` on a store; return the link that it prints."""
    with ThreadPoolExecutor(1) as thread:  # Playwright keeps an event loop in this one
        url = thread.submit(_prepare, tmp_path).result()
    words = [sys.executable, "-m", "holdfast.cli", "dashboard", "--port", "0", "--actions", "--app", WATCHED]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {"WATCHED_URL": url}) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        yield found[0]
        process.terminate()


def _prepare(folder: Path) -> str:
    """Fill a store with all that has actions: also a workflow that goes on, and a watched table."""
    url = furnish(folder)
    add_table(folder)
    app = App(url)

    @app.task
    async def sync_orders(shop: str) -> None:
        """Nothing is left to do."""

    with app.workflow("nightly") as flow:
        flow.add(sync_orders.bind("west"), name="last", after=[flow.add(sync_orders.bind("north"), name="first")])
    app.close()
    return url


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
    ("/workflows", "nightly", "Recover", {}),
    ("/workflows", "nightly", "Cancel", {}),
    ("/rows", "", "Reset stuck", {}),
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
    more = {"schedule.run", "schedule.pause", "schedule.resume", "workflow.recover", "workflow.cancel"}
    assert done >= {"reschedule", "cancel", "delete", "retry", "pause", "resume", "purge", "drain", "reset", *more}
    context.close()


def test_a_running_operation_is_stopped_by_keyboard(browser: "Browser", link: str, tmp_path: Path) -> None:
    context = browser.new_context()
    page, other, site = context.new_page(), context.new_page(), link.partition("/enter")[0]
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_enqueue_many, f"sqlite:///{tmp_path}/jobs.db", 2500).result()
    page.goto(link)
    page.goto(f"{site}/jobs?state=available&queue=bulk")
    _open(page, page.locator(".acts").get_by_role("link", name="Cancel"))
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")  # the first batch waits for this transaction
        _open(page, page.get_by_role("button", name="Cancel"))
        page.get_by_role("button", name="Stop").focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
            for _ in range(100):
                other.goto(page.url)
                if "stopped" in _main(other):
                    break
            busy.rollback()
    page.get_by_text("stopped").wait_for(timeout=10_000)
    page.goto(f"{site}/audit?action=stop")
    assert page.locator("main tbody tr").count() == 1
    page.goto(f"{site}/audit?action=cancel")
    assert "1,000" in _main(page)
    context.close()


def _enqueue_many(url: str, number: int) -> None:
    app = App(url)

    @app.task(queue="bulk")
    async def crunch(number: int) -> None:
        """Nothing is left to do."""

    crunch.enqueue_many([{"number": each} for each in range(number)])
    app.close()


def test_selected_rows_are_retried_by_keyboard(browser: "Browser", link: str) -> None:
    context = browser.new_context()
    page, site = context.new_page(), link.partition("/enter")[0]
    page.goto(link)
    page.goto(f"{site}/jobs?state=completed")
    boxes = page.locator(".tick input[name=job]")
    names = {str(each.get_attribute("aria-label")) for each in boxes.all()}
    assert len(names) == boxes.count() > 2
    assert page.get_by_label("Select all jobs of this page").is_visible()
    assert page.locator(".bulk button:enabled").count() == 0
    for key in ("j", "x", "j", "j", "x"):
        page.keyboard.press(key)
    assert page.locator(".bulk").inner_text().startswith("2 selected:")
    page.keyboard.press(".")
    assert page.evaluate("document.activeElement.textContent") == "Retry"
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "You selected 2 completed." in _main(page)
    page.keyboard.press(".")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.get_by_text("2 of 2 jobs changed").wait_for(timeout=10_000)
    page.goto(f"{site}/audit?action=retry")
    assert page.locator("main tbody tr td:nth-child(4)").all_inner_texts() == ["2"]
    context.close()


def test_selected_rows_are_cancelled_without_script(browser: "Browser", link: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page, site = context.new_page(), link.partition("/enter")[0]
    page.goto(link)
    page.goto(f"{site}/jobs?state=available&queue=imports")
    assert not page.get_by_label("Select all jobs of this page").is_visible()
    page.locator(".bulk").get_by_role("button", name="Cancel").press("Enter")
    page.get_by_text("No job is selected").first.wait_for()
    page.goto(f"{site}/jobs?state=available&queue=imports")
    for row in (0, 1):
        page.locator(".tick input[name=job]").nth(row).press("Space")
    page.locator(".bulk").get_by_role("button", name="Cancel").press("Enter")
    page.wait_for_url("**/actions/selected/cancel?*")
    page.get_by_label("Reason").press("Enter")
    page.wait_for_url("**/operations/*")
    page.goto(f"{site}/jobs?state=cancelled&queue=imports")
    assert page.locator("main tbody tr").count() == 2
    context.close()


@pytest.mark.parametrize(("scheme", "screen"), [("light", "desk"), ("dark", "phone")])
def test_selected_rows_are_accessible_and_stay_while_the_page_renews_itself(
    browser: "Browser", link: str, tmp_path: Path, scheme: Any, screen: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    width, height = SCREENS[screen]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    page, site = context.new_page(), link.partition("/enter")[0]
    page.goto(link)
    with page.expect_response("**/api/v1/events"):
        page.goto(f"{site}/jobs")
    page.get_by_label("Select all jobs of this page").check()
    boxes = page.locator(".tick input[name=job]")
    first, count = str(boxes.first.get_attribute("value")), boxes.count()
    boxes.nth(1).uncheck()
    assert page.locator(".bulk").inner_text().startswith(f"{count - 1} selected:")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_enqueue_many, f"sqlite:///{tmp_path}/jobs.db", 2).result()
    page.get_by_role("button", name="2 newer").click(timeout=2 * SOON)
    page.locator("tbody tr", has_text="crunch").nth(1).wait_for(timeout=SOON)
    assert page.locator(f".tick input[value='{first}']").is_checked()
    assert page.locator(".tick input[name=job]:checked").count() == page.locator("tr.sel").count() == count - 1
    assert page.locator(".bulk").inner_text().startswith(f"{count - 1} selected:")
    found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]][:2]) for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
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
