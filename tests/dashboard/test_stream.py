"""What changed, as events: one look for all viewers, none without one, and nothing that a viewer misses without a word."""

import asyncio
import json
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from holdfast import App
from holdfast._engine.client.client import Client
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.tasks.options import Options
from holdfast.dashboard import Dashboard, Identity
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


def test_a_page_that_renews_itself_is_read_once_a_second_for_all() -> None:
    app, read = App("memory://"), list[str]()
    dashboard = Dashboard(app, authenticate=lambda request: Identity("a", [request.headers["x-role"]]))

    async def view(asked: Asked) -> Page:
        read.append(asked.id)
        return Page(template="message.html", title="t", values={"text": "", "remedy": "", "glyph": "dot", "family": "waiting"})

    async def renew() -> None:
        asked = [Asked(app=app, now=dashboard._now(), id=each) for each in ("x", "x", "x", "y")]
        await asyncio.gather(*(dashboard._shared(each, view) for each in asked))

    asyncio.run(renew())
    assert sorted(read) == ["x", "y"]


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
