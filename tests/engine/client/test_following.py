"""Follow a job: its changes, until it has finished."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from holdfast import App, ConfigurationError, InsideEventLoop, Job, JobNotFound, JobView, StoreUnavailable
from holdfast.stores.memory import MemoryStore

EVERY = "100ms"


class Shop:
    def __init__(self) -> None:
        self.app, self.go_on = App("memory://"), asyncio.Event()

        @self.app.task
        async def report(job: Job, pages: int) -> int:
            for page in range(pages):
                await job.progress(stage="read", fraction=page / pages)
                await self.go_on.wait()
                self.go_on.clear()
            return pages

        self.report = report


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_it_shows_the_job_now_each_change_and_its_end(shop: Shop) -> None:
    handle = await shop.report.aenqueue(pages=2)
    seen = []
    async with shop.app.worker():
        async for view in handle.afollow(EVERY):
            seen.append((view.state, view.fraction))
            if view.fraction is not None:
                shop.go_on.set()
    assert seen[-1][0] == "completed"
    assert ("running", 0.5) in seen
    assert len(seen) == len(set(seen))


async def test_a_finished_job_is_shown_once(shop: Shop) -> None:
    handle = await shop.report.aenqueue(pages=0)
    await shop.app.arun_due()
    assert [view.state async for view in shop.app.jobs.afollow(str(handle.id))] == ["completed"]


async def test_many_followers_of_a_job_share_each_read(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await shop.report.aenqueue(pages=0)
    reads = []
    read = MemoryStore.get

    async def counted(store: MemoryStore, job: UUID) -> object:
        reads.append(job)
        return await read(store, job)

    monkeypatch.setattr(MemoryStore, "get", counted)

    async def last() -> str:
        return [view.state async for view in handle.afollow(EVERY)][-1]

    followers = [asyncio.create_task(last()) for _ in range(200)]
    await wait_until(lambda: len(reads) == 3)
    assert len(reads) == 3
    await handle.acancel()
    assert set(await asyncio.gather(*followers)) == {"cancelled"}
    assert len(reads) <= 5


async def test_reading_ends_with_the_last_follower(shop: Shop) -> None:
    handle = await shop.report.aenqueue(pages=0)
    follower, other = handle.afollow(EVERY), handle.afollow(EVERY)
    assert (await anext(follower)).state == (await anext(other)).state == "available"
    (followed,) = shop.app._connections.client().following._followed.values()
    await follower.aclose()
    assert followed.reading is not None
    assert not followed.reading.cancelling()
    await other.aclose()
    await asyncio.wait({followed.reading})
    assert followed.reading.cancelled()


async def test_a_store_that_is_away_is_waited_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await shop.report.aenqueue(pages=0)
    client = shop.app._connections.client()
    follower = handle.afollow(EVERY)
    assert (await anext(follower)).state == "available"
    failures = iter([StoreUnavailable("away"), StoreUnavailable("away")])
    read = client.following._read

    async def fails_twice(job: UUID) -> object:
        for error in failures:
            raise error
        return await read(job)

    monkeypatch.setattr(client.following, "_read", fails_twice)
    await handle.acancel()
    assert [view.state async for view in follower] == ["cancelled"]
    assert next(failures, None) is None


async def test_a_row_that_cannot_be_read_is_an_error_of_each_follower(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await shop.report.aenqueue(pages=0)
    following = shop.app._connections.client().following
    follower = handle.afollow(EVERY)
    assert (await anext(follower)).state == "available"
    read = following._read

    async def fails(job: UUID) -> JobView:
        raise ValueError("'NEWER' is not a valid Reason")

    monkeypatch.setattr(following, "_read", fails)
    for each in (follower, handle.afollow(EVERY)):
        with pytest.raises(ValueError, match="NEWER"):
            await anext(each)
    monkeypatch.setattr(following, "_read", read)
    assert (await anext(handle.afollow(EVERY))).state == "available"


async def test_a_job_that_does_not_exist_or_is_deleted_raises(shop: Shop) -> None:
    with pytest.raises(JobNotFound):
        await anext(shop.app.jobs.afollow(UUID(int=1)))
    handle = await shop.report.aenqueue(pages=0)
    follower = handle.afollow(EVERY)
    assert (await anext(follower)).state == "available"
    await shop.app.jobs.adelete(handle.id)
    with pytest.raises(JobNotFound):
        await anext(follower)


async def test_a_blocking_call_inside_an_event_loop_and_a_pause_that_is_too_short_are_refused(shop: Shop) -> None:
    handle = await shop.report.aenqueue(pages=0)
    with pytest.raises(InsideEventLoop):
        handle.follow()
    with pytest.raises(ConfigurationError, match=r"at least 0\.1 s"):
        handle.afollow(every=0.01)


def test_code_without_an_event_loop_follows_too() -> None:
    app = App("memory://")

    @app.task
    def work() -> None: ...

    handle = work.enqueue()
    states = []
    for view in handle.follow(EVERY):
        states.append(view.state)
        app.run_due()
    assert (states[0], states[-1]) == ("available", "completed")
    app.close()


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
