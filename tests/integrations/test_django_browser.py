"""Django's admin and the dashboard of a project in Chromium, under ASGI and WSGI: what each user sees and does by permission."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.conftest import browser as browser
from tests.integrations.django_site import PASSWORD, SECRET

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Browser, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(120)]
PROJECT = Path(__file__).with_name("django_site.py")
LIST = "/admin/holdfast/jobs/"
VERBS = ("Cancel", "Retry", "Reschedule", "Delete", "Reveal")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
REFUSED = "Failed to load resource: the server responded with a status of 403 (Forbidden)"
"""What Chromium itself reports of a page that is refused."""


@pytest.fixture(scope="module", params=["asgi", "wsgi"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the project; return its address."""
    words = [sys.executable, str(PROJECT), str(tmp_path_factory.mktemp("django")), request.param]
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
    context.on("console", lambda message: reports.append(message.text) if message.type in ("error", "warning") else None)
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


def _audited(page: "Page", name: str) -> list[list[str]]:
    """Return what a user did, the newest first: who, the action, the reason, and from where."""
    page.goto("/work/audit")
    rows = [row.locator("td").all_inner_texts() for row in page.locator("main tbody tr").all()]
    return [[*row[1:3], *row[5:]] for row in rows if row[1] == name]


def _forge(page: "Page", path: str, form: dict[str, str]) -> "APIResponse":
    """Send a form that is on no page, with the cookies of the browser and Django's own token."""
    tokens = [each["value"] for each in page.context.cookies() if each["name"] == "csrftoken"]
    origin = page.url.partition("/admin/")[0].partition("/work/")[0]
    return page.request.post(path, form={**form, "csrfmiddlewaretoken": tokens[0]}, headers={"origin": origin}, max_redirects=0)


def test_an_administrator_acts_in_the_admin_and_on_the_dashboard_and_is_audited(page: "Page") -> None:
    _sign_in(page, "root", "/admin/")
    page.get_by_role("link", name="Jobs", exact=True).click()
    failed, waiting = _job(page, "mail"), _job(page, "pack")
    page.get_by_label(failed).check()
    page.get_by_label("Action").select_option("retry")
    page.get_by_role("button", name="Go").click()
    page.get_by_text("retry: 1 jobs, now available").wait_for()
    page.get_by_role("link", name=waiting).click()
    page.wait_for_url(f"**/work/jobs/{waiting}")
    assert SECRET in page.locator("main").inner_text()
    page.get_by_role("link", name="Cancel").click()
    page.get_by_label("Reason").fill("sold out")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"**/work/jobs/{waiting}")
    assert _audited(page, "root") == [["root", "cancel", "sold out", "dashboard"], ["root", "retry", "–", "django admin"]]


def test_a_page_that_is_open_follows_what_happens_in_the_admin(page: "Page") -> None:
    _sign_in(page, "otto", "/work/jobs")
    row, other = page.locator("main tbody tr", has_text="print"), page.context.new_page()
    assert "available" in row.inner_text()
    other.goto(LIST)
    assert other.get_by_label("Action").locator("option").all_inner_texts() == ["---------", "cancel", "retry"]
    other.get_by_label(_job(other, "print")).check()
    other.get_by_label("Action").select_option("cancel")
    other.get_by_role("button", name="Go").click()
    other.get_by_text("cancel: 1 jobs, now cancelled").wait_for()
    row.get_by_text("cancelled").wait_for(timeout=15_000)  # under WSGI the page reads itself again every 5 s


def test_a_viewer_sees_jobs_in_both_and_acts_in_neither(page: "Page") -> None:
    _sign_in(page, "vera", LIST)
    waiting = _job(page, "label")
    assert page.get_by_label("Action").count() == page.get_by_role("button", name="Go").count() == 0
    assert page.get_by_role("checkbox").count() == 0
    assert SECRET not in page.content()
    page.get_by_role("link", name=waiting).click()
    page.get_by_role("heading", name="label").wait_for()
    story = page.locator("main")
    assert [name for name in VERBS if story.get_by_role("link", name=name, exact=True).count()] == []
    assert SECRET not in page.content()
    page.goto(f"/work/actions/job/cancel?name={waiting}")
    assert "may not cancel" in page.locator("body").inner_text()
    page.goto(LIST)
    assert _forge(page, LIST, {"action": "cancel", "job": waiting}).status == 403
    assert _forge(page, "/work/actions/job/cancel", {"name": waiting, "token": "0" * 64}).status == 403
    page.goto(f"/work/jobs/{waiting}")
    assert "cancelled" not in story.inner_text()
    assert {(who, action) for who, action, *_ in _audited(page, "vera")} == {("vera", "denied")}


@pytest.mark.parametrize("path", [LIST, "/work/jobs"])
def test_staff_without_the_permission_are_refused(page: "Page", path: str) -> None:
    _sign_in(page, "carla", path)
    for refused in (LIST, "/work/", "/work/jobs", "/work/audit"):
        answer = page.goto(refused)
        assert answer is not None
        assert (answer.status, "label" in page.content()) == (403, False), refused
    page.goto("/admin/")
    assert page.get_by_role("link", name="Jobs", exact=True).count() == 0
    assert _forge(page, LIST, {"action": "cancel", "job": "0"}).status == 403
    assert _forge(page, "/work/actions/queue/pause", {"name": "default", "token": "0" * 64}).status == 403


def test_a_stranger_is_sent_to_the_login_and_can_change_nothing(page: "Page") -> None:
    for path in ("/admin/", LIST, "/work/", "/work/jobs?state=failed", "/work/audit"):
        page.goto(path)
        page.get_by_role("button", name="Log in").wait_for()
        assert page.url.endswith(f"/admin/login/?next={path.replace('?', '%3F').replace('=', '%3D')}")
    assert _forge(page, LIST, {"action": "cancel", "job": "0"}).status == 302
    assert _forge(page, "/work/actions/queue/pause", {"name": "default", "token": "0" * 64}).status == 401
    assert page.request.get("/work/api/v1/jobs").status == 401


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_of_the_admin_is_accessible(page: "Page", scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    page.emulate_media(color_scheme=scheme)
    _sign_in(page, "root", LIST)
    found = Axe().run(page, context="#content", options={"runOnly": RULES}).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]][:2]) for each in found] == []
