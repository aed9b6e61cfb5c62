"""The applications of the pages on web frameworks have the dashboard where the page mounts it, and know no job that is not there."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.docs.test_fastapi import Answer, ask
from tests.docs.web_module import web_of

PAGES = [ROOT / f"docs/how-to/{name}.md" for name in ("web-frameworks", "quart")]
TASKS, *SITES = [block.text for page in PAGES for block in blocks_of(page) if block.file is not None]
FRAMEWORKS = ("litestar", "flask", "quart")
NO_JOB = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def web(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module web.py of a framework, in a folder with the tasks of the page."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "web.py").write_text(SITES[FRAMEWORKS.index(request.param)])
    yield from web_of(tmp_path, monkeypatch)


async def _of_this_machine(site: Any, path: str) -> Answer:
    """Ask as a browser of this machine does."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        host = (b"host", b"localhost:8000")
        await site({**scope, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "headers": [host]}, receive, send)

    return await ask(served, "GET", path)


@pytest.mark.parametrize(("web", "name"), [("litestar", "site"), ("quart", "both")], indirect=["web"])
async def test_the_dashboard_is_below_work_and_its_links_lead_there(web: Any, name: str) -> None:
    await web.app.amigrate()
    handle = await web.welcome.aenqueue(name="Ada")
    site = getattr(web, name)
    paths = ["/work/", "/work/jobs", f"/work/jobs/{handle.id}", "/work/static/style.css", "/work/api/v1/queues"]
    answers = [await _of_this_machine(site, path) for path in paths]
    assert [answer.status for answer in answers] == [200] * len(paths)
    links = re.findall(r'(?:href|src|action)="(/[^"]*)', answers[1].body.decode())
    assert [link for link in links if not link.startswith("/work/")] == []
    assert f"/work/jobs/{handle.id}" in links
    assert (await _of_this_machine(site, "/work/nothing")).status == 404


@pytest.mark.parametrize("web", ["litestar", "quart"], indirect=True)
async def test_an_unknown_job_is_not_found(web: Any) -> None:
    await web.app.amigrate()
    assert (await _of_this_machine(web.site, f"/jobs/{NO_JOB}")).status == 404


@pytest.mark.parametrize("web", ["flask"], indirect=True)
def test_an_unknown_job_is_not_found_by_flask(web: Any) -> None:
    web.app.migrate()
    assert web.site.test_client().get(f"/jobs/{NO_JOB}").status_code == 404


def test_the_pages_have_an_application_for_each_framework() -> None:
    assert [name for name, text in zip(FRAMEWORKS, SITES, strict=True) if f"from {name} import" not in text] == []
