"""The page on FastAPI: its task runs, and its stream works in Starlette, which FastAPI is made of and which is installed here."""

import ast
import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast import App
from holdfast.integrations.starlette import SHOWN, lifespan, progress_response
from tests.docs.pages import ROOT, Block, blocks_of

PAGE = ROOT / "docs/how-to/fastapi.md"
TEXT = PAGE.read_text(encoding="utf-8")


def block(name: str) -> Block:
    return next(each for each in blocks_of(PAGE) if each.text.startswith(f"# {name}\n"))


def namespace_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {"__name__": "tasks"}
    exec(compile(block("tasks.py").text.replace("asyncio.sleep(0.1)", "asyncio.sleep(0)"), "tasks.py", "exec"), names)
    return names


async def answered(web: Starlette, path: str) -> bytes:
    """Return the body of a GET, asked as a server asks."""
    body: list[bytes] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()  # the visitor stays
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        body.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "app": web}
    await web(scope, receive, send)
    return b"".join(body)


async def test_the_task_of_the_page_runs_and_its_progress_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = namespace_of(tmp_path, monkeypatch)
    app: App = names["app"]

    async def progress(request: Request) -> Response:
        return await progress_response(app, UUID(request.path_params["id"]), every="100ms")

    web = Starlette(routes=[Route("/jobs/{id}/progress", progress)], lifespan=lifespan(app))
    try:
        handle = await names["analyze"].options(unique_key="https://a.org").aenqueue("https://a.org")
        again = await names["analyze"].options(unique_key="https://a.org").aenqueue("https://a.org")
        assert again.id == handle.id
        await app.arun_due()
        stream = (await answered(web, f"/jobs/{handle.id}/progress")).decode()
        assert "event: end" in stream
        assert '"message":"page 100 of 100"' in stream
        assert '"result"' not in stream
        assert await handle.aresult() == {"url": "https://a.org", "pages": 100}
    finally:
        await app.aclose()


def test_what_the_page_imports_of_holdfast_exists() -> None:
    tree = ast.parse(block("web.py").text)
    imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and str(each.module).startswith("holdfast")]
    assert len(imports) == 2
    for each in imports:
        module = __import__(str(each.module), fromlist=[alias.name for alias in each.names])
        assert [alias.name for alias in each.names if not hasattr(module, alias.name)] == []


def test_the_page_names_the_fields_that_visitors_see() -> None:
    (line,) = [each for each in TEXT.splitlines() if each.startswith("* The stream has ")]
    assert [name for name in SHOWN if f"`{name}`" not in line] == []
