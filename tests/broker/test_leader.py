"""Two brokers on one bucket, and clients that find the one that leads."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from holdfast import App, State
from holdfast._ports.leading import Misdirected
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.broker import application
from holdfast.broker.serving import Listening
from holdfast.databases.buckets.opening import open_bucket
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.opening import open_store
from holdfast.settings import Settings
from holdfast.stores.objects.creation import create
from holdfast.stores.objects.leader_look import LeaderLook
from holdfast.stores.objects.store import ObjectStore
from holdfast.stores.remote.store import RemoteStore
from holdfast.testing.clock import FakeChance
from tests.broker.support import RunningBroker
from tests.e2e.waiting import until

NUMBERS = count()
CLOCK = SystemClock()


@pytest.fixture
def bucket() -> str:
    url = f"memory-object://led-{next(NUMBERS)}"
    asyncio.run(create(open_bucket(url, CLOCK), FakeChance(7).uuid4()))
    return url


@pytest.fixture
def brokers(bucket: str) -> Iterator[list[RunningBroker]]:
    running = [RunningBroker(ObjectStore(bucket, clock=CLOCK, chance=SystemRandomness()), CLOCK) for _ in range(2)]
    yield running
    for each in running:
        if each.is_running:
            each.stop()


def get(url: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, dict(answer.headers.items()), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers.items()), error.read()


async def counts(*servers: str) -> Any:
    store: Any = RemoteStore(servers, token=None, chance=FakeChance())
    try:
        return await store.counts()
    finally:
        await store.close()


def test_one_broker_leads_and_the_other_one_names_it(brokers: list[RunningBroker]) -> None:
    leader, follower = brokers
    assert get(f"{leader.url}/leader")[0] == 200
    status, headers, _ = get(f"{leader.url}/api/v1/stats")
    assert (status, headers["holdfast-version"].partition(".")[0]) == (200, "1")
    for path in ("/leader", "/api/v1/stats"):
        status, headers, body = get(f"{follower.url}{path}")
        assert (status, headers["holdfast-leader"]) == (421, leader.url)
        assert leader.url in body.decode()
    assert json.loads(body)["code"] == "misdirected"
    assert get(f"{follower.url}/readyz")[0] == 200


def test_clients_follow_only_to_brokers_that_they_were_given(brokers: list[RunningBroker]) -> None:
    leader, follower = brokers
    for _ in range(3):
        assert asyncio.run(counts(follower.url, leader.url)) == {}
    with pytest.raises(StoreUnavailable, match=f"ask the one that leads, {leader.url}"):
        asyncio.run(counts(follower.url))


def test_a_client_of_the_bucket_goes_where_the_leadership_goes(bucket: str, brokers: list[RunningBroker]) -> None:
    leader, follower = brokers
    app, direct = App(bucket), open_store(Settings.of(f"{bucket}?broker=never"))
    app.enqueue("note")
    with pytest.raises(StoreUnavailable, match="leave broker=never out"):
        asyncio.run(direct.counts())
    leader.stop()
    until(lambda: get(f"{follower.url}/leader")[0] == 200, within=5.0)
    app.enqueue("note")
    follower.stop()
    app.enqueue("note")
    assert asyncio.run(direct.counts()) == {("", State.AVAILABLE): 3}
    app.close()
    asyncio.run(direct.close())


def test_a_broker_that_listens_everywhere_must_say_where_it_is_reached() -> None:
    with pytest.raises(ConfigurationError, match="--advertise http://HOST:7700"):
        Listening(host="0.0.0.0").require_address()
    Listening(host="0.0.0.0", advertised="http://a:7700").require_address()
    Listening(host="127.0.0.1").require_address()
    assert Listening.of("0.0.0.0", None, None, None, is_open=False, advertised="http://a").advertised == "http://a:7700"


@pytest.mark.parametrize("url", ["ftp://a", "http://a,b", "http://a/jobs"])
def test_a_wrong_advertised_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--advertise: "):
        Listening.of("127.0.0.1", None, None, None, is_open=False, advertised=url)


async def test_an_application_with_a_url_stands_for_election_and_hands_over_at_its_end(bucket: str) -> None:
    url, app = "https://broker.example:7700", App(bucket)
    served, store = application(app, url=url), ObjectStore(bucket, clock=CLOCK, chance=SystemRandomness())
    leader = LeaderLook(open_bucket(bucket, CLOCK)).leader
    async with served.router.lifespan_context(served):
        assert await leader() == url
        with pytest.raises(Misdirected, match=f"the broker at {url} leads"):
            await store.counts()
    assert await leader() is None
    await store.close()
    await app.aclose()
