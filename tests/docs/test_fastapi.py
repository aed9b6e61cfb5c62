"""The application of the page on FastAPI does what the page states, asked as a server asks."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.integrations.starlette import SHOWN
from tests.docs.pages import ROOT, blocks_of
from tests.docs.web_module import web_of

PAGE = ROOT / "docs/how-to/fastapi.md"
SCRIPT = next(block.text for block in blocks_of(PAGE) if block.language == "html")


class Answer:
    """What an ASGI application sent."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, dict[str, str](), b""
        self.is_whole = asyncio.Event()

    async def send(self, message: Any) -> None:
        """Keep a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        self.body += message.get("body", b"")
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_whole.set()


async def ask(web: Any, method: str, path: str, body: bytes = b"") -> Answer:
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    answer = Answer()

    async def receive() -> dict[str, Any]:
        if not parts:
            await answer.is_whole.wait()  # the visitor stays until then
            return {"type": "http.disconnect"}
        return parts.pop()

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
    scope |= {"method": method, "path": path, "raw_path": path.encode(), "headers": [], "query_string": b""}
    await web(scope, receive, answer.send)
    return answer


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module web.py of the page, in a folder with its other files."""
    for block in blocks_of(PAGE):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text.replace("asyncio.sleep(0.1)", "asyncio.sleep(0)"))
    (tmp_path / "job.html").write_text(SCRIPT)
    yield from web_of(tmp_path, monkeypatch)


async def test_a_form_enqueues_one_job_and_its_progress_is_streamed_to_the_end(web: Any) -> None:
    assert b'name="url"' in (await ask(web.site, "GET", "/")).body
    created = [await ask(web.site, "POST", "/analyses", b"url=https%3A%2F%2Fa.org") for _ in range(2)]
    assert [answer.status for answer in created] == [303, 303]
    (place,) = {answer.headers["location"] for answer in created}
    assert (await ask(web.site, "GET", place)).body == SCRIPT.encode()
    job = place.rpartition("/")[2]
    await web.app.arun_due()
    stream = await ask(web.site, "GET", f"/jobs/{job}/progress")
    assert stream.headers["x-accel-buffering"] == "no"
    assert b"event: end" in stream.body
    assert b'"message":"page 100 of 100"' in stream.body
    assert b'"result"' not in stream.body
    shown = await ask(web.site, "GET", f"/jobs/{job}")
    assert b'"pages":100' in shown.body
    assert [name for name in SHOWN if f'"{name}"'.encode() not in stream.body] == []


async def test_an_unknown_job_is_not_found(web: Any) -> None:
    job = "00000000-0000-0000-0000-000000000001"
    paths = f"/jobs/{job}", f"/jobs/{job}/progress", f"/analyses/{job}/report"
    assert [(await ask(web.site, "GET", path)).status for path in paths] == [404, 404, 404]


@pytest.mark.parametrize("form", [b"", b"url="])
async def test_an_empty_form_is_refused_and_enqueues_nothing(web: Any, form: bytes) -> None:
    assert (await ask(web.site, "POST", "/analyses", form)).status == 422
    assert await web.app.jobs.alist() == []


async def test_the_report_is_typed_and_there_is_none_of_a_cancelled_job(web: Any) -> None:
    handle = await web.analyze.aenqueue("https://a.org")
    await web.app.arun_due()
    assert await handle.aresult() == web.Report("https://a.org", 100)
    (place,) = re.findall(r"fetch\(`(.+?)`\)", SCRIPT)
    assert (await ask(web.site, "GET", place.replace("${id}", str(handle.id)))).body == b'{"url":"https://a.org","pages":100}'
    other = await web.analyze.aenqueue("https://b.org")
    await other.acancel()
    assert (await ask(web.site, "GET", f"/analyses/{other.id}/report")).status == 409


def test_the_page_names_the_fields_that_visitors_see_and_the_script_reads_them() -> None:
    (line,) = [each for each in PAGE.read_text(encoding="utf-8").splitlines() if each.startswith("* The stream has ")]
    assert [name for name in SHOWN if f"`{name}`" not in line] == []
    assert {name for name in SHOWN if f"job.{name}" in SCRIPT} >= {"state", "attempt", "message", "fraction", "rescued"}
