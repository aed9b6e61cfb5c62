"""What changed, as events: one look for all viewers, none without one, and nothing that a viewer misses without a word."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from holdfast import App
from holdfast._core.job import State
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.tasks.options import Options
from holdfast.dashboard import Dashboard, Identity
from holdfast.dashboard.shared_readings import SharedReadings
from holdfast.dashboard.views.page import Asked, Page
from holdfast.http.stream import KEPT, MOST_VIEWERS, MOST_WATCHED, TOPICS, Stream, Viewer
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance, FakeClock
from holdfast.transports.inprocess import InProcessTransport
from tests.dashboard.browser import OWN, get


class CountingStore(MemoryStore):
    """A store that counts what it is asked."""

    asked: Counter[str]

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self.asked[verb] += 1
        return await super()._ask(verb, arguments, keywords)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = CountingStore(self.clock)
        self.store.asked = Counter()
        environment = Environment(self.store, InProcessTransport([]), self.clock, FakeChance(), Events())
        self.client = Client(environment)
        self.stream = Stream(lambda: self.client, lambda: self.clock, "e")

    async def enqueue(self) -> UUID:
        job = FakeChance(self.store.asked.total()).uuid7()
        await self.client.enqueue([Options().new_job(job, "t", b"{}")])
        return job


def _topics(viewer: Viewer) -> list[str]:
    found = [line.decode().split("event: ")[1].split("\n")[0] for line in viewer.waiting]
    viewer.waiting.clear()
    return found


@pytest.fixture
def world() -> World:
    return World()


def _join(world: World, *viewers: Viewer) -> None:
    """Add viewers without the loop that looks: the tests look themselves."""
    world.stream._viewers += viewers


def test_a_change_is_sent_once_to_each_viewer_that_asked_for_it(world: World) -> None:
    everything, workers = Viewer(TOPICS), Viewer(["worker"])

    async def run() -> None:
        _join(world, everything, workers)
        await world.stream.look()
        await world.stream.look()
        assert _topics(everything) == []
        await world.enqueue()
        await world.stream.look()
        assert _topics(everything) == ["counts", "queue"]
        await world.stream.look()
        assert _topics(everything) == _topics(workers) == []

    asyncio.run(run())


def test_a_look_is_at_most_six_statements_for_any_number_of_viewers(world: World) -> None:
    async def run() -> None:
        jobs = [await world.enqueue() for _ in range(8)]
        viewers = [Viewer(TOPICS) for _ in range(50)] + [Viewer(["job"], job) for job in jobs]
        _join(world, *viewers)
        await world.stream.look()
        for _ in range(4):  # each watched job has its turn
            world.store.asked.clear()
            await world.stream.look()
            assert 3 < world.store.asked.total() <= 3 + MOST_WATCHED
        for viewer in viewers:
            _topics(viewer)
        await world.client.cancel(jobs)
        for _ in range(4):
            await world.stream.look()
        assert [_topics(viewer) for viewer in viewers[50:]] == [["job"]] * 8

    asyncio.run(run())


def test_without_a_viewer_nothing_is_read(world: World) -> None:
    async def run() -> None:
        lines = world.stream.read(Viewer(TOPICS))
        assert await anext(lines) == b"retry: 500\n\n"
        looking = world.stream._looking
        assert looking is not None
        await lines.aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(looking, 10)
        assert world.stream._looking is None

    asyncio.run(run())


def test_a_viewer_that_comes_back_gets_what_it_missed_or_is_asked_to_read_again(world: World) -> None:
    async def missed(last: str) -> bytes:
        lines = world.stream.read(Viewer(["counts"]), last)
        await anext(lines)
        found = await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        return found

    async def run() -> None:
        _join(world, Viewer(TOPICS))
        await world.stream.look()
        for _ in range(3):
            await world.enqueue()
            await world.stream.look()
        ids = [event.id for event in world.stream._recent if event.topic == "counts"]
        assert f"id: {ids[1]}\n".encode() in await missed(ids[0])
        assert b"event: gap" in await missed("other-7")
        assert b"event: gap" in await missed("")
        world.clock.advance(KEPT + 1)
        await world.enqueue()
        await world.stream.look()
        assert b"event: gap" in await missed(ids[0])

    asyncio.run(run())


def test_a_page_that_renews_itself_is_read_once_after_each_change_for_all() -> None:
    app, read = App("memory://"), list[str]()
    dashboard = Dashboard(app, authenticate=lambda request: Identity("a", [request.headers["x-role"]]))

    async def view(asked: Asked) -> Page:
        read.append(asked.id)
        return Page(template="message.html", title="t", values={"text": "", "remedy": "", "glyph": "dot", "family": "waiting"})

    async def renew() -> list[str]:
        read.clear()
        asked = [Asked(app=app, now=dashboard._now(), id=each) for each in ("x", "x", "x", "y")]
        await asyncio.gather(*(dashboard._shared(each, view) for each in asked))
        return sorted(read)

    async def run() -> None:
        assert [await renew(), await renew()] == [["x", "y"], []]
        dashboard._stream._number += 1
        assert [await renew(), await renew()] == [["x", "y"], []]

    asyncio.run(run())


class Reads:
    """Readings of pages that take a given time of a clock that the test sets."""

    def __init__(self) -> None:
        self.clock, self.change, self.count = FakeClock(), 0, 0
        self.readings = SharedReadings(lambda: self.clock, lambda: self.change)

    def of(self, key: str, seconds: float) -> "asyncio.Future[Page]":
        async def read() -> Page:
            self.count += 1
            self.clock.advance(seconds)
            return Page(template="", title=f"{key} {self.count}")

        return self.readings.of(key, read)


def test_what_is_watched_rests_longer_the_longer_it_took() -> None:
    async def run() -> None:
        reads = Reads()
        for took, rest in ((0.05, 1.0), (0.2, 1.5), (2.0, 10.0)):
            reads.change += 1
            begun = reads.clock.monotonic()
            assert (await reads.of("x", took)).title == f"x {reads.count}"
            assert reads.readings._rests_until == pytest.approx(begun + rest)
            reads.clock.advance(rest - took if rest < 10.0 else 0.0)
        reads.change += 1
        assert (await reads.of("x", 0.6)).title == "x 3"  # the next one would take longer than a viewer waits
        reads.clock.advance(7.95)
        waiting = [reads.of("x", 0.0), reads.of("x", 0.0), reads.of("y", 0.0)]
        done, _ = await asyncio.wait(waiting, timeout=0)
        assert (done, reads.count) == (set(), 3)
        reads.change += 1  # it is seen by the reading that has not begun
        assert sorted({(await each).title[0] for each in waiting}) == ["x", "y"]
        assert reads.count == 5

    asyncio.run(run())


def test_a_change_during_a_reading_has_the_page_read_again() -> None:
    async def run() -> None:
        reads, goes_on = Reads(), asyncio.Event()

        async def read() -> Page:
            await goes_on.wait()
            return Page(template="", title="old")

        first = reads.readings.of("x", read)
        await asyncio.wait([first], timeout=0.01)
        reads.change += 1
        second = reads.of("x", 0.0)
        goes_on.set()
        assert [(await first).title, (await second).title] == ["old", "x 1"]

    asyncio.run(run())


def test_pages_see_the_counts_of_the_latest_look(world: World) -> None:
    async def run() -> None:
        _join(world, Viewer(TOPICS))
        await world.enqueue()
        await world.stream.look()
        world.store.asked.clear()
        (queue,) = await world.stream.queues()
        assert (queue.counts[State.AVAILABLE], world.store.asked.total()) == (1, 0)

    asyncio.run(run())


def test_a_count_that_took_long_is_shown_again_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    took, count = [0.0], world.store.queues

    async def slow(most: int | None = None) -> Any:
        world.clock.advance(took[0])
        return await count(most)

    async def waiting() -> int:
        await world.enqueue()
        return sum(each.counts[State.AVAILABLE] for each in await world.stream.counted())

    async def run() -> None:
        found = []
        for seconds, later in ((0.01, 0.0), (0.05, 1.9), (0.05, 0.2), (0.3, 9.6), (0.3, 0.2), (0.3, 0.0)):
            took[0] = seconds
            found.append(await waiting())
            world.clock.advance(later)
        assert found == [1, 2, 2, 4, 4, 6]
        assert await waiting() == 6
        world.stream.forget_count()
        assert await waiting() == 8

    monkeypatch.setattr(world.store, "queues", slow)
    asyncio.run(run())


def test_a_count_or_look_under_way_when_an_action_changes_something_is_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, during = world.store.queues, list[Callable[[], None]]()

    async def slow(most: int | None = None) -> Any:
        found = await count(most)
        world.clock.advance(0.3)
        for each in during:
            each()
        return found

    async def run() -> None:
        during.append(world.stream.forget_count)
        await world.stream.counted()
        await world.stream.look()
        during.clear()
        await world.enqueue()
        assert sum(each.counts[State.AVAILABLE] for each in await world.stream.queues()) == 1

    monkeypatch.setattr(world.store, "queues", slow)
    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/events?topics=odd", 422), ("/api/v1/jobs/x/events", 404), (f"/api/v1/jobs/{UUID(int=1)}/events", 404)],
)
def test_a_stream_of_what_there_is_not_is_a_problem(path: str, status: int) -> None:
    reply = get(Dashboard(App("memory://")), path)
    assert reply.status == status
    assert json.loads(reply.body)["remedy"]


def test_events_reach_a_browser_until_it_goes() -> None:
    app = App("memory://")
    dashboard, got = Dashboard(app), list[bytes]()

    async def visit() -> None:
        gone = asyncio.Event()

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            got.append(message.get("body", b""))

        path = "/api/v1/events"
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": path,
            "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": [OWN], "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8400),
        }  # fmt: skip
        visiting = asyncio.create_task(dashboard(scope, receive, send))
        while dashboard._stream.viewers == 0:
            await asyncio.wait([visiting], timeout=0.01)
        await dashboard._stream.look()
        await app.aenqueue("t")
        await dashboard._stream.look()
        while not any(b"event: counts" in each for each in got):
            await asyncio.wait([visiting], timeout=0.01)
        gone.set()
        await asyncio.wait_for(visiting, 10)
        assert dashboard._stream.viewers == 0
        if (looking := dashboard._stream._looking) is not None:
            await asyncio.wait_for(looking, 10)
        await app.aclose()

    asyncio.run(visit())


def test_viewers_that_come_at_the_same_moment_are_limited_too() -> None:
    async def connect() -> int:
        stream = World().stream
        connections = [stream.read(Viewer(TOPICS)) for _ in range(MOST_VIEWERS + 5)]
        begun = [await anext(each, b"") for each in connections]
        stream.close()
        for each in connections:
            await each.aclose()  # type: ignore[attr-defined]
        return sum(map(bool, begun))

    assert asyncio.run(connect()) == MOST_VIEWERS
