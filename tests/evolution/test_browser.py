"""The web application in Chromium while its processes are killed: the results are those of an undisturbed run, byte for byte.

The recording of the screen is kept as `evolution.webp` in the folder that HOLDFAST_SCREENSHOTS names, or in that of the test.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from evolution_web.cloning import clone

from holdfast._system.guard import read_stat
from holdfast.demo.analysis import Analysis, git
from holdfast.demo.sample import generate
from tests.dashboard.conftest import browser as browser
from tests.evolution.recording import Recording

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(240)]
COMMITS, SCREEN = 400, {"width": 1360, "height": 900}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WATCH = """
const isHere = location.protocol === "http:";
const seen = isHere ? JSON.parse(sessionStorage.getItem("seen") ?? "[]") : [];
new MutationObserver(() => {
  const main = document.getElementById("main"), step = document.querySelector(".stages [aria-current]");
  if (main?.dataset.state) seen.push([step ? step.textContent : main.dataset.state, Number(main.dataset.next)]);
  if (isHere) sessionStorage.setItem("seen", JSON.stringify(seen));
}).observe(document, { childList: true, subtree: true, attributes: true });
"""


SLOW_GIT = """#!/bin/sh
case " $* " in *" clone "*) sleep 1 ;; esac
exec {git} "$@"
"""


class Site:
    """The web server and its workers, started as `make evolution` starts them."""

    def __init__(self, home: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        settings = {"EVOLUTION_HOME": str(home), "EVOLUTION_FILES": str(home), "EVOLUTION_PORT": self.address.rpartition(":")[2]}
        settings["PATH"] = f"{_slow_git(home / 'bin')}{os.pathsep}{os.environ['PATH']}"
        words = [sys.executable, "-m", "evolution_web"]
        self.process = subprocess.Popen(words, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout is not None
        while self.address.encode() not in (line := self.process.stdout.readline()):
            assert line, "it has ended"
        Thread(target=self.process.stdout.read, daemon=True).start()

    def children(self, word: str) -> list[int]:
        """Return the process of that command, the web server or the supervisor, and then what is below it."""
        stats = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
        parents = {pid: stat.parent for pid, stat in stats.items() if stat is not None and stat.is_alive}
        found = [pid for pid, parent in parents.items() if parent == self.process.pid and word in _command(pid)]
        for known in found:
            found += [pid for pid, parent in parents.items() if parent == known]
        return found

    def kill(self, word: str) -> int:
        """Kill a command with all its processes at once; return the process id of the command."""
        pids = self.children(word)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids[0]


def _slow_git(folder: Path) -> Path:
    """Make a git whose clone takes as long as one over a network."""
    folder.mkdir()
    (folder / "git").write_text(SLOW_GIT.format(git=shutil.which("git")))
    (folder / "git").chmod(0o755)
    return folder


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except OSError:
        return ""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    generate(tmp_path / "project.git", COMMITS)
    site = Site(tmp_path)
    yield site
    site.process.terminate()
    site.process.wait(20)
    assert site.process.stdout is not None
    site.process.stdout.close()
    assert site.children("") == []


def undisturbed(url: str, out: Path) -> dict[str, bytes]:
    """Run the analysis here, in one go."""
    os.environ["EVOLUTION_FILES"] = str(out.parent)
    analysis = Analysis(url, str(out), job="here", attempt=1, clone=clone)
    analysis.report(analysis.count(analysis.begin(), COMMITS, 700))
    analysis.close()
    return {kind: (out / f"evolution.{kind}").read_bytes() for kind in ("csv", "json", "svg")}


def go_on(page: "Page", attempt: int) -> int:
    """Wait until an attempt counts commits; return the commit at which it went on."""
    page.wait_for_selector(f"main[data-attempt='{attempt}']", timeout=30_000)
    line = page.locator(".rescues li").nth(attempt - 2)
    line.get_by_text(re.compile(r"going on from commit \d+")).wait_for(timeout=30_000)
    found = re.search(r"(Killed|Lost) at \d+ %.*going on from commit (\d+)", line.inner_text())
    assert found, line.inner_text()
    return int(found[2])


def until_commit(page: "Page", commit: int) -> None:
    while int(page.locator("#main").get_attribute("data-next") or 0) < commit:
        page.wait_for_timeout(50)


def watched(browser: "Browser", site: Site, reports: list[str], **options: Any) -> "Page":
    page = browser.new_context(viewport=SCREEN, **options).new_page()
    page.on("pageerror", lambda error: reports.append(str(error)))
    page.on(
        "request", lambda request: reports.append(request.url) if not request.url.startswith((site.address, "data:")) else None
    )
    return page


def test_killed_workers_supervisor_and_web_server_change_no_byte(browser: "Browser", site: Site, tmp_path: Path) -> None:
    url, reports = f"file://{tmp_path}/project.git", list[str]()
    page = watched(browser, site, reports)
    page.add_init_script(WATCH)
    _when_it_answers(page, site.address)
    recording = Recording(page, 850, 563)
    page.get_by_label("Address of a git repository").fill(url)
    page.get_by_role("button", name="Analyze").click()
    page.wait_for_url("**/analyses/*")

    until_commit(page, COMMITS // 4)
    page.get_by_role("button", name="Kill the worker").click()
    assert go_on(page, 2) >= COMMITS // 4

    until_commit(page, COMMITS // 2)
    first = site.kill("holdfast.cli")
    assert go_on(page, 3) >= COMMITS // 2
    assert site.children("holdfast.cli")[0] != first

    until_commit(page, COMMITS * 5 // 8)
    page.evaluate("window.isSamePage = true")
    site.kill("uvicorn")
    page.get_by_text("no answer, trying again").wait_for(timeout=10_000)
    until_commit(page, COMMITS * 3 // 4)
    assert page.evaluate("window.isSamePage"), "the page was not loaded again"

    others = [watched(browser, site, reports), watched(browser, site, reports, java_script_enabled=False)]
    for other in others:  # a second tab, and one without script, which both follow
        other.goto(page.url)
        assert "from commit" in other.locator(".rescues").inner_text()
    for each in (page, *others):
        each.wait_for_selector("main[data-state=completed]", timeout=60_000)
    seen = page.evaluate("JSON.parse(sessionStorage.getItem('seen'))")
    assert list(dict.fromkeys(stage for stage, _ in seen if stage in ("clone", "count", "report"))) == [
        "clone",
        "count",
        "report",
    ]
    counts = [done for _, done in seen]
    assert counts == sorted(counts), "the curve never falls back"
    assert len(set(counts)) > 20
    page.reload()
    assert page.locator(".rescues li").count() == 2
    text = page.locator(".log").inner_text()
    assert [text.count(f"Stage {stage}") for stage in ("clone", "report")] == [1, 1]

    for kind, content in undisturbed(url, tmp_path / "here").items():
        assert page.request.get(f"{page.url}/evolution.{kind}").body() == content, kind
    assert page.request.get(f"{page.url}/evolution.png").body().startswith(b"\x89PNG")
    assert reports == []
    folder = Path(os.environ.get("HOLDFAST_SCREENSHOTS") or tmp_path)
    assert recording.save(folder / "evolution.webp", 20.0) > 15
    assert git("-C", str(tmp_path / "project.git"), "rev-list", "--count", "HEAD") == str(COMMITS)


def _when_it_answers(page: "Page", address: str) -> None:
    from playwright.sync_api import Error  # noqa: PLC0415 – only `make prove` installs it

    while True:
        try:
            page.goto(address)
            return
        except Error as error:
            if "ERR_CONNECTION_REFUSED" not in str(error):
                raise
            page.wait_for_timeout(100)


@pytest.mark.parametrize("screen", [1360, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_is_accessible_on_each_screen(browser: "Browser", site: Site, tmp_path: Path, scheme: Any, screen: int) -> None:
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 – only `make prove` installs it

    context = browser.new_context(color_scheme=scheme, viewport={"width": screen, "height": 900})
    page, reports = context.new_page(), list[str]()
    page.on("console", lambda message: reports.append(message.text) if message.type in ("error", "warning") else None)
    _when_it_answers(page, site.address)
    page.get_by_label("Address of a git repository").fill("http://github.com/pallets/flask")

    def look(name: str) -> None:
        found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
        assert [(name, each["id"], [node["html"][:200] for node in each["nodes"]][:2]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= screen, name
        if folder := os.environ.get("HOLDFAST_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/evolution-{name}-{scheme}-{screen}.png", full_page=True)

    look("form")
    page.get_by_role("button", name="Analyze").click()
    page.get_by_text("is not the address of a repository").wait_for()
    look("refused")
    page.get_by_label("Address of a git repository").fill(f"file://{tmp_path}/project.git")
    page.get_by_role("button", name="Analyze").click()
    page.wait_for_url("**/analyses/*")
    until_commit(page, 100)
    page.get_by_role("button", name="Kill the worker").click()
    go_on(page, 2)
    look("running")
    page.wait_for_selector("main[data-state=completed]", timeout=60_000)
    look("completed")
    page.goto(site.address)
    look("recent")
    assert [text for text in reports if "400" not in text and "ERR_CONNECTION_REFUSED" not in text] == []
    context.close()
