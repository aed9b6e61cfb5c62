"""The lifespan and the progress of a job, for FastAPI and Starlette."""

from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import StreamingResponse

from holdfast import App, ConfigurationError, JobNotFound
from holdfast.integrations.starlette import lifespan, progress_response


async def events(response: StreamingResponse) -> list[tuple[str, Any]]:
    found = []
    async for block in cast(AsyncIterator[bytes], response.body_iterator):
        if block.startswith(b"retry: "):
            continue
        name, data = block.decode().removesuffix("\n\n").split("\n")
        found.append((name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: "))))
    return found


async def test_the_stream_ends_with_the_job_and_shows_neither_payload_nor_result() -> None:
    app = App("memory://")

    @app.task
    async def report(secret: str) -> str:
        return secret

    handle = await report.aenqueue("canary")
    response = await progress_response(app, handle.id, every="100ms")
    await app.arun_due()
    ((name, shown),) = await events(response)
    assert (name, shown["state"], shown["attempt"], response.media_type) == ("end", "completed", 1, "text/event-stream")
    assert "canary" not in str(shown)


async def test_you_choose_the_fields_and_a_deleted_job_ends_the_stream() -> None:
    app = App("memory://")
    app.task(name="report")(lambda: None)
    handle = await app.aenqueue("report")
    response = await progress_response(app, str(handle.id), every="100ms", show=lambda view: {"now": view.state})
    stream = cast(AsyncIterator[bytes], response.body_iterator)
    assert await anext(stream) == b"retry: 300\n\n"
    assert await anext(stream) == b'event: progress\ndata: {"now":"available"}\n\n'
    await app.jobs.adelete(handle.id)
    assert [line async for line in stream] == [b"event: end\ndata: null\n\n"]


async def test_an_unknown_job_and_a_pause_that_is_too_short_are_errors_before_the_answer_begins() -> None:
    with pytest.raises(JobNotFound):
        await progress_response(App("memory://"), UUID(int=1))
    with pytest.raises(ConfigurationError):
        await progress_response(App("memory://"), UUID(int=1), every=0.01)


async def test_an_answer_ends_in_time_because_a_server_that_stops_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.integrations.starlette.LONGEST", 0.2)
    app = App("memory://")
    app.task(name="report")(lambda: None)
    handle = await app.aenqueue("report")
    assert [name for name, _ in await events(await progress_response(app, handle.id, every="100ms"))] == ["progress"]
    assert app._connections.client().following._followed == {}


@pytest.mark.parametrize("worker", [True, False])
async def test_the_lifespan_runs_jobs_only_if_asked_and_closes_the_app(worker: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    app, closed = App("memory://"), []

    async def close() -> None:
        closed.append(app)

    monkeypatch.setattr(app, "aclose", close)

    @app.task
    async def double(n: int) -> int:
        return n * 2

    async with lifespan(app, worker=worker)(Starlette()):
        handle = await double.aenqueue(21)
        if worker:
            assert await handle.aresult(timeout="10s") == 42
        else:
            assert await app.workers.alist() == []
        assert closed == []
    assert closed == [app]
