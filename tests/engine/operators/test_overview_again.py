"""An overview that is read again and again reads little, and misses nothing."""

import asyncio
from typing import Any

import pytest

from holdfast import App
from holdfast._core.job import State
from holdfast._core.requests import JobFilter, several
from holdfast._engine.operators.operators import client_of
from holdfast._engine.operators.overview import Recent, overview
from holdfast.app import environment_of


def test_errors_are_grouped_again_only_once_another_job_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    app, looks = App("memory://"), list[int]()

    @app.task(max_attempts=1)
    async def broken() -> None:
        raise RuntimeError("no")

    async def run() -> None:
        store, recent = environment_of(app).store, Recent()
        group = store.errors

        async def recorded(look: int, limit: int) -> Any:
            looks.append(look)
            return await group(look, limit)

        monkeypatch.setattr(store, "errors", recorded)

        async def failed() -> list[int]:
            seen = await overview(client_of(app.jobs), None, recent)
            return [each.count for each in seen.errors.groups]

        async def fail() -> None:
            await app.aenqueue("broken")
            await app.arun_due()

        assert await failed() == []
        await fail()
        assert (await failed(), await failed()) == ([1], [1])
        looks.clear()
        assert (await failed(), looks) == ([1], [1])
        await fail()
        assert await failed() == [2]
        await app.aclose()

    asyncio.run(run())


def test_many_waiting_jobs_are_not_looked_through_for_rescued_ones_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    app, looked = App("memory://"), list[bool]()

    @app.task
    async def quick() -> None: ...

    async def run() -> None:
        store, recent = environment_of(app).store, Recent()
        read = store.list

        async def recorded(which: JobFilter) -> Any:
            if which.is_rescued:
                looked.append(State.AVAILABLE in several(which.state or ()))
            return await read(which)

        async def look() -> list[bool]:
            looked.clear()
            await overview(client_of(app.jobs), None, recent)
            return looked

        monkeypatch.setattr(store, "list", recorded)
        await app.aenqueue("quick")
        assert await look() == [True, False]  # finished ones last
        assert await look() == [True]
        monkeypatch.setattr("holdfast._engine.operators.overview.FEW_WAITING", 0)
        assert await look() == [False]
        recent.until = 0.0
        assert await look() == [False, False, True]
        assert await look() == [False]
        await app.aclose()

    asyncio.run(run())
