"""Many jobs of one call: what is read when, what is written together, what is reported, and what is stored when it fails."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import App, Task
from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._engine.tasks import bulk
from holdfast.errors import ConfigurationError, PayloadInvalid, StoreUnavailable

Number = Task[..., Any, ...]


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    return App("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def double(app: App) -> Number:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    return double


@pytest.fixture
def writes(app: App, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each write had, in the order in which they began."""
    return written(app, monkeypatch)


def written(app: App, monkeypatch: pytest.MonkeyPatch, fail: Mapping[int, Exception] = {}) -> list[int]:
    """Record the writes of an App. ``fail``: what some of them raise, by their number."""
    store, sizes = app._connections.store, list[int]()
    enqueue = store.enqueue

    async def record(call: UUID, jobs: Sequence[NewJob], **more: Any) -> EnqueueAnswer:
        sizes.append(len(jobs))
        if error := fail.get(len(sizes)):
            raise error
        return await enqueue(call, jobs, **more)

    monkeypatch.setattr(store, "enqueue", record)
    return sizes


def numbers(app: App) -> list[int]:
    """Return the numbers of all jobs, in the order of their ids."""
    return [job.payload["n"] for job in reversed(app.jobs.list(limit=10_000))]


def counted(count: int, read: list[int]) -> Iterator[dict[str, int]]:
    for n in range(count):
        read.append(n)
        yield {"n": n}


async def acounted(count: int, read: list[int]) -> AsyncGenerator[dict[str, int], None]:
    for each in counted(count, read):
        yield each


def test_a_list_is_one_write(app: App, double: Number, writes: list[int]) -> None:
    seen = list[int]()
    handles = double.enqueue_many([{"n": n} for n in range(2500)], progress=seen.append)
    assert (writes, seen) == ([2500], [2500])
    assert numbers(app) == [*range(2500)]
    assert [handle.id for handle in handles] == sorted(handle.id for handle in handles)
    assert handles[7].get().payload == {"n": 7}


def test_a_generator_is_read_as_it_is_written(app: App, double: Number, writes: list[int]) -> None:
    read, seen = list[int](), list[tuple[int, int]]()
    handles = double.enqueue_many(counted(50, read), chunk_size=10, progress=lambda stored: seen.append((stored, len(read))))
    assert writes == [10] * 5
    assert [stored for stored, _ in seen] == [10, 20, 30, 40, 50]
    assert all(ahead <= stored + 10 * bulk.UNDER_WAY for stored, ahead in seen)
    assert numbers(app) == [*range(50)]
    assert [handle.get().payload for handle in handles] == [{"n": n} for n in range(50)]


def test_an_iterator_has_chunks_without_being_asked_for(app: App, double: Number, writes: list[int]) -> None:
    assert len(double.enqueue_many({"n": n} for n in range(bulk.CHUNK + 1))) == bulk.CHUNK + 1
    assert writes == [bulk.CHUNK, 1]


def test_a_list_has_chunks_if_asked_for(app: App, double: Number, writes: list[int]) -> None:
    double.enqueue_many([{"n": n} for n in range(5)], chunk_size=2)
    assert writes == [2, 2, 1]


def test_nothing_to_enqueue_writes_nothing(app: App, double: Number, writes: list[int]) -> None:
    seen = list[int]()
    assert double.enqueue_many([], progress=seen.append) == double.enqueue_many(iter(()), progress=seen.append) == []
    assert (writes, seen) == ([], [])


def test_long_payloads_make_smaller_chunks(app: App, writes: list[int]) -> None:
    @app.task
    def read(text: str) -> None: ...

    read.enqueue_many({"text": "x" * 10_000} for _ in range(1200))
    assert writes == [500, 500, 200]


@pytest.mark.parametrize("size", [0, -1, True, "10"])
def test_a_wrong_size_is_refused_before_anything_is_read(double: Number, size: Any) -> None:
    with pytest.raises(ConfigurationError, match="chunk_size"):
        double.enqueue_many(counted(1, read := []), chunk_size=size)
    assert read == []


def note_of(error: BaseException) -> str:
    (note,) = error.__notes__
    return note.split(";")[0]


def test_a_wrong_payload_is_named_and_all_chunks_before_it_are_stored(app: App, double: Number) -> None:
    seen = list[int]()
    with pytest.raises(PayloadInvalid, match=r"payloads\[25\]: .*`\$.n`") as caught:
        double.enqueue_many(({"n": "x" if n == 25 else n} for n in range(50)), chunk_size=10, progress=seen.append)
    assert (seen, note_of(caught.value)) == ([10, 20], "enqueue_many: the first 20 jobs are written")
    assert numbers(app) == [*range(20)]


def test_an_error_of_the_generator_leaves_the_chunks_before_it(app: App, double: Number) -> None:
    def broken() -> Iterator[dict[str, int]]:
        yield from counted(15, [])
        raise RuntimeError("the file is damaged")

    with pytest.raises(RuntimeError, match="damaged") as caught:
        double.enqueue_many(broken(), chunk_size=10)
    assert note_of(caught.value) == "enqueue_many: the first 10 jobs are written"
    assert numbers(app) == [*range(10)]


def test_a_failed_write_ends_the_call_and_what_is_behind_it_does_not_count(
    app: App, double: Number, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, seen = written(app, monkeypatch, {3: ValueError("no")}), list[int]()
    with pytest.raises(ValueError, match="no") as caught:
        double.enqueue_many(counted(100, read := []), chunk_size=10, progress=seen.append)
    assert (seen, note_of(caught.value)) == ([10, 20], "enqueue_many: the first 20 jobs are written")
    assert (len(sizes) <= 5, len(read) <= 50) == (True, True)
    assert numbers(app)[:20] == [*range(20)]
    assert {n // 10 for n in numbers(app)} <= {0, 1, 3}


def test_an_error_of_the_callback_ends_the_call(app: App, double: Number) -> None:
    seen = list[int]()

    def stop(stored: int) -> None:
        seen.append(stored)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as caught:
        double.enqueue_many(counted(1000, read := []), chunk_size=10, progress=stop)
    assert (seen, len(read)) == ([10], 10 * bulk.UNDER_WAY + 10)
    assert note_of(caught.value) == f"enqueue_many: the first {10 * bulk.UNDER_WAY} jobs are written"
    assert numbers(app) == [*range(10 * bulk.UNDER_WAY)]


def test_with_unique_keys_the_call_can_be_made_again(app: App) -> None:
    @app.task(unique_by=("n",))
    def once(n: int) -> None: ...

    with pytest.raises(PayloadInvalid):
        once.enqueue_many(({"n": None if n == 15 else n} for n in range(20)), chunk_size=10)
    handles = once.enqueue_many(({"n": n % 15} for n in range(20)), chunk_size=10)
    assert [handle.created for handle in handles] == [False] * 10 + [True] * 5 + [False] * 5
    assert handles[15].id == handles[0].id
    assert numbers(app) == [*range(15)]


def test_one_unique_key_is_not_for_many(double: Number) -> None:
    with pytest.raises(ConfigurationError, match="many jobs cannot share one"):
        double.options(unique_key="k").enqueue_many(counted(2, []))
    assert len(double.options(unique_key="k").enqueue_many(counted(1, []))) == 1


def test_code_around_each_enqueue_sees_every_job(app: App, double: Number, writes: list[int]) -> None:
    @app.around_enqueue
    def tag(job: Any) -> Iterator[None]:
        job.headers["n"] = str(job.payload["n"])
        yield

    handles = double.enqueue_many(counted(5, []), chunk_size=2)
    assert [handle.get().headers for handle in handles] == [{"n": str(n)} for n in range(5)]
    assert writes == [2, 2, 1]


def test_a_key_in_the_payload_is_that_of_each_job(app: App) -> None:
    @app.task(key="customer")
    def bill(customer: str) -> None: ...

    handles = bill.enqueue_many([{"customer": "a"}, {"customer": "b"}])
    assert [handle.get().key for handle in handles] == ["a", "b"]


async def test_async_callers_may_pass_async_generators(app: App, double: Number, writes: list[int]) -> None:
    read, seen = list[int](), list[int]()
    handles = await double.aenqueue_many(acounted(25, read), chunk_size=10, progress=seen.append)
    assert (writes, seen, len(handles)) == ([10, 10, 5], [10, 20, 25], 25)
    assert [(await handle.aget()).payload for handle in handles] == [{"n": n} for n in range(25)]
    assert len(await double.aenqueue_many(acounted(3, []))) == 3
    await app.aclose()


async def test_the_event_loop_has_turns_in_between(app: App, double: Number) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await bulk.turn()

    other = asyncio.create_task(count())
    await double.aenqueue_many([{"n": n} for n in range(5000)])
    other.cancel()
    assert turns >= 9
    await app.aclose()


async def test_an_async_failure_waits_for_what_is_under_way(app: App, double: Number, monkeypatch: pytest.MonkeyPatch) -> None:
    written(app, monkeypatch, {2: ValueError("no")})
    with pytest.raises(ValueError, match="no") as caught:
        await double.aenqueue_many(acounted(100, []), chunk_size=10)
    assert note_of(caught.value) == "enqueue_many: the first 10 jobs are written"
    assert len(asyncio.all_tasks()) == 1
    await app.aclose()


async def test_a_cancelled_call_cancels_its_writes(app: App, double: Number, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def never(*_: Any, **__: Any) -> EnqueueAnswer:
        begun.set()
        await asyncio.Event().wait()
        raise StoreUnavailable("never")

    monkeypatch.setattr(app._connections.store, "enqueue", never)
    async with aclosing(acounted(100, read := [])) as source:
        call = asyncio.create_task(double.aenqueue_many(source, chunk_size=10))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert (len(asyncio.all_tasks()), len(read) <= 30) == (1, True)
    await app.aclose()
