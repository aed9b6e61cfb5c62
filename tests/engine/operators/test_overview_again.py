"""An overview that is read again and again reads little, and misses nothing."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from holdfast import App, Limit
from holdfast._core.job import State
from holdfast._core.overview import NeedKind
from holdfast._core.policy import Policy
from holdfast._core.requests import ClaimKind, ClaimRequest, JobFilter, several
from holdfast._engine.operators.operators import client_of
from holdfast._engine.operators.overview import Recent, overview
from holdfast.app import environment_of
from tests.engine.support import LEASE, TIMING


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


def test_waiting_jobs_of_a_task_are_counted_while_no_live_worker_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app, reads = App("memory://"), list[str | None]()

    async def run() -> None:
        store, recent = environment_of(app).store, Recent()
        count = store.counts

        async def recorded(by: Any = None, most: int | None = None) -> Any:
            reads.append(by)
            return await count(by, most)

        async def look() -> list[int]:
            reads.clear()
            seen = await overview(client_of(app.jobs), None, recent)
            assert [each.subject for each in seen.needs if each.kind is NeedKind.UNKNOWN_TASK] == [*seen.waiting]
            return [*seen.waiting.values(), len(reads)]

        monkeypatch.setattr(store, "counts", recorded)
        await app.aenqueue("elsewhere")
        assert await look() == [0]  # no worker lives: that is the need
        await store.open_lease(structs.replace(LEASE, timing=TIMING, tasks=("send",)))
        await app.aenqueue("elsewhere")
        await app.aenqueue("send")
        assert await look() == [2, 1]
        await app.aenqueue("elsewhere")
        assert await look() == [3, 1]
        monkeypatch.setattr("holdfast._engine.operators.overview.FEW_WAITING", 0)
        assert await look() == [3, 0]
        recent.waiting_until = 0.0
        assert await look() == [3, 1]
        monkeypatch.setattr("holdfast._engine.operators.overview.MOST_LOOKED", 3)
        assert (await overview(client_of(app.jobs), None, recent)).waiting == {}
        await app.aclose()

    asyncio.run(run())


def test_the_oldest_holder_of_a_full_limit_is_read_where_it_is_not_among_the_running_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("memory://")
    monkeypatch.setattr("holdfast._core.overview.FULL_FOR", 0.0)

    async def run() -> None:
        store = environment_of(app).store
        await app.limits.aset("task", "send", Limit(concurrency=1))
        first = await app.aenqueue("send")
        await app.aenqueue("send")
        await store.open_lease(structs.replace(LEASE, timing=TIMING, tasks=("send",), slots=2))
        request = ClaimRequest(lease=LEASE.id, claim=UUID(int=9), tasks={"send": Policy()}, limit=2, kind=ClaimKind.LIMITED)
        await store.exchange((), request)
        assert (await overview(client_of(app.jobs))).holders == []
        monkeypatch.setattr("holdfast._engine.operators.overview.MOST_RUNNING", 0)
        seen = await overview(client_of(app.jobs))
        assert ([each.id for each in seen.holders], seen.waiting) == ([first.id], {"send": 1})
        await app.aclose()

    asyncio.run(run())
