"""The MongoDB store when a primary dies with what it alone had, or goes on without knowing that it was deposed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from msgspec import structs
from pymongo import errors as driver

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import RescueReason, State, Token
from holdfast._core.lifecycle import LeaseEnd
from holdfast._core.requests import ProgressUpdate
from holdfast._ports.store import Store
from holdfast._system.clock import SystemClock, SystemRandomness
from holdfast.databases.mongo import database
from holdfast.databases.mongo.errors import statement_error
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.mongo.store import MongoStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import PROCESS, Part, Scene, done, play, raised
from holdfast.testing.servers import MongoServer, MongoSet
from tests.e2e.waiting import until
from tests.stores.postgres_faulty_databases import in_the_end

CRASH = LeaseEnd(RescueReason.CRASHED)
LONG = 600.0
ELECTION = 30.0
"""The most seconds in which another member becomes primary, on a machine that runs other tests."""


class Site(Part):
    """Scenes on three members, with real clocks."""

    def __init__(self, servers: MongoSet) -> None:
        self.servers, self.url = servers, servers.create_database()

    def make_store(self, clock: FakeClock) -> Store:
        return store_at(self.url)

    def beside(self, member: MongoServer) -> MongoStore:
        """Return a store that reaches this member alone."""
        return store_at(f"mongodb://{member.address}{urlsplit(self.url).path}?directConnection=true")


async def migrate(at: Scene) -> None:
    """Create the collections of the store."""
    await in_the_end(at.store.migrate)


def store_at(url: str) -> MongoStore:
    """Return a new store on the system's clock."""
    return MongoStore(url, clock=SystemClock(), chance=SystemRandomness(), process=PROCESS)


@pytest.fixture
def site(mongo_trio: MongoSet) -> Iterator[Site]:
    mongo_trio.start()
    site = Site(mongo_trio)
    play(site, migrate)
    yield site
    for member in mongo_trio.members:
        if member.is_paused:
            member.resume()
    mongo_trio.start()
    mongo_trio.drop_database(site.url)


@contextmanager
def point(name: str, *members: MongoServer) -> Iterator[None]:
    """Set a fail point on members."""
    for member in members:
        member.set_fail_point(name)
    try:
        yield
    finally:
        for member in members:
            if member.is_running:
                member.set_fail_point(name, "off")


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Let verbs give up after this time."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("VERB_LIMIT", "BEAT_LIMIT"):
            patch.setattr(database, name, seconds)
        yield


async def is_unknown(verb: Callable[[], Awaitable[object]], name: str = "it") -> None:
    """Check that a verb is not answered."""
    try:
        answer = await verb()
    except StoreUnavailable:
        return
    pytest.fail(f"{name} answered {answer}")


def test_s6_what_only_a_lost_primary_had_was_never_acknowledged(site: Site) -> None:
    async def act(at: Scene) -> None:
        kept, ended, ending = await at.running(), await at.running(), await at.running()
        (job,) = await at.enqueue(at.new())
        lease, rival = await at.lease(ttl=LONG), await at.lease(ttl=LONG)
        assert await at.settle(done(ended)) == (Answer.APPLIED,)
        call, new = at.chance.uuid4(), at.new(queue="late")
        request = at.request(lease)
        first = site.servers.primary()
        with point("stopReplProducer", *site.servers.secondaries()):
            with limit(0.5):
                await asyncio.gather(
                    is_unknown(lambda: at.store.exchange((), request)),
                    is_unknown(lambda: at.settle(done(kept))),
                    is_unknown(lambda: at.store.end_lease(ending.lease, CRASH)),
                    is_unknown(lambda: at.store.enqueue(call, [new])),
                )
            first.kill()
            await asyncio.to_thread(site.servers.primary)
        assert await in_the_end(lambda: at.state(ended.id)) is State.COMPLETED
        assert await at.state(kept.id) is State.RUNNING
        assert await at.store.get(new.id) is None
        assert await at.store.held(lease) == ()
        assert (await in_the_end(lambda: at.store.beat([ending.lease]))).alive == {ending.lease}
        (claim,) = await at.claim(rival)
        assert claim.job.id == job
        assert await at.settle(done(kept)) == (Answer.APPLIED,)
        assert await at.store.end_lease(ending.lease, CRASH) == CRASH
        assert await at.store.enqueue(call, [new]) == EnqueueAnswer()
        await asyncio.to_thread(site.servers.start)
        assert [each.token for each in await in_the_end(lambda: at.store.held(rival))] == [claim.job.token]

    play(site, act)


@contextmanager
def cut_off(servers: MongoSet) -> Iterator[MongoServer]:
    """Cut the primary off from the others: it serves reads, and does not learn for a minute that it may be deposed."""
    primary = servers.primary()
    usual = set_lone_time(primary, 60_000)
    others = servers.secondaries()
    # A majority has all that was written: it "confirms" a write that changes nothing.
    primary.command("appendOplogNote", data={"all": "follow"}, writeConcern={"w": len(servers.members), "j": True})
    primary.command("appendOplogNote", data={"all": "follow"}, writeConcern={"w": "majority"})
    for each in others:
        each.pause()
    try:
        yield primary
    finally:
        for each in others:
            each.resume()
        set_lone_time(primary, usual)


def set_lone_time(primary: MongoServer, millis: int) -> int:
    """Let a primary be primary for as long after it has lost the others; return the time before."""
    config = primary.command("replSetGetConfig")["config"]
    before, config["settings"]["electionTimeoutMillis"] = config["settings"]["electionTimeoutMillis"], millis
    config["version"] += 1
    primary.command("replSetReconfig", config, maxTimeMS=30_000, timeout=30.0)
    return int(before)


def test_s3_a_primary_that_was_cut_off_gives_no_negative_answer(site: Site) -> None:
    """What it does not know may have been written by a primary elected after it."""

    async def act(at: Scene) -> None:
        job, token, lease, key = at.chance.uuid7(), Token(at.chance.uuid4(), 7), at.chance.uuid4(), at.new(key="key")
        ours, waiting = await at.running(), await at.enqueue(at.new(queue="waiting"))
        unknown = structs.replace(ours, id=job, token=token, lease=lease)
        moved = structs.replace(ours, token=token)
        negative: dict[str, Callable[[], Awaitable[object]]] = {
            "get": lambda: at.store.get(job),
            "request_cancel": lambda: at.store.request_cancel([job]),
            "reschedule": lambda: at.store.reschedule([job]),
            "reopen": lambda: at.store.reopen([job]),
            "delete": lambda: at.store.delete([job]),
            "missing": lambda: at.settle(done(unknown)),
            "lost": lambda: at.settle(done(moved)),
            "failed": lambda: at.settle(raised(moved)),
            "report": lambda: at.store.report([ProgressUpdate(job=job, token=token, stage="half")]),
            "start": lambda: at.store.start([(job, token)]),
            "start_through": lambda: cast(MongoStore, at.store).start_through(lease, 1, 0),
            "void": lambda: cast(MongoStore, at.store).void(lease, 1),
            "beat": lambda: at.store.beat([lease]),
            "end_lease": lambda: at.store.end_lease(ours.lease, CRASH, seen="other"),
            "held": lambda: at.store.held(lease),
            "job_with_key": lambda: cast(MongoStore, at.store).job_with_key("task", "key"),
            "enqueue under": lambda: at.store.enqueue(at.chance.uuid4(), [at.new()], under=(job, token)),
        }
        positive: dict[str, Callable[[], Awaitable[object]]] = {
            "claim": lambda: at.claim(ours.lease),
            "settle": lambda: at.settle(done(ours)),
            "enqueue": lambda: at.send(key),
        }
        with cut_off(site.servers), limit(0.2):
            assert await at.state(ours.id) is State.RUNNING, "it does not serve reads"
            # What writes nothing comes first: a majority confirms no write after the first one that only this member has.
            for name in ("request_cancel", "reschedule", "reopen", "delete", *negative):
                await is_unknown(negative[name], name)
            for name, verb in positive.items():
                await is_unknown(verb, name)
        await in_the_end(at.store.counts)
        for name in negative:
            await in_the_end(negative[name])
        assert await at.settle(done(ours)) == (Answer.APPLIED,)
        assert await at.state(*waiting) in (State.AVAILABLE, State.RUNNING)  # the claim may have landed late

    play(site, act)


@pytest.mark.prove
def test_s3_what_a_deposed_primary_reads_is_never_believed(site: Site) -> None:
    async def act(at: Scene) -> None:
        lease, rival = await at.lease(ttl=LONG), await at.lease(ttl=LONG)
        (shared,) = await at.enqueue(at.new(queue="shared"))
        prefetched = await at.prefetched()
        old = site.servers.primary()
        stale = site.beside(old)
        assert len(await stale.workers()) == 3
        with point("blockHeartbeatStepdown", old):
            new, third = site.servers.secondaries()
            new.command("replSetStepUp")
            assert await asyncio.to_thread(lambda: until(lambda: site.servers.primary() is new, within=ELECTION))
            third.command("replSetSyncFrom", new.address)  # else it waits for the old one for some seconds
            (job,) = await in_the_end(lambda: at.enqueue(at.new()))
            (mine,) = [each.job for each in await at.claim(lease, queues=("default",))]
            late = await at.lease(ttl=LONG)
            (taken,) = [each.job for each in await at.claim(lease, queues=("shared",))]
            assert (mine.id, taken.id) == (job, shared)
            assert await stale.get(shared) is not None, "the old primary does not serve reads"
            update = ProgressUpdate(job=job, token=mine.token, stage="half")
            request = at.request(rival, queues=("shared",))
            # What writes nothing comes first: a majority confirms no write after the first one that only this member has.
            absent: list[Callable[[list[UUID]], Awaitable[object]]] = [
                stale.request_cancel,
                stale.reschedule,
                stale.reopen,
                stale.delete,
            ]
            with limit(1.0):
                await asyncio.gather(*(is_unknown(partial(verb, [job])) for verb in absent))
                await asyncio.gather(
                    is_unknown(lambda: stale.held(lease)),
                    is_unknown(lambda: stale.get(job)),
                    is_unknown(lambda: stale.exchange((), request)),
                    is_unknown(lambda: stale.exchange([done(mine)])),
                    is_unknown(lambda: stale.report([update])),
                    is_unknown(lambda: stale.start([(job, mine.token)])),
                    is_unknown(lambda: stale.beat([late])),
                    is_unknown(lambda: stale.end_lease(late, CRASH)),
                    is_unknown(lambda: stale.start_through(late, 1, 0)),
                    is_unknown(lambda: stale.enqueue(at.chance.uuid4(), [at.new()], under=(job, mine.token))),
                )
        await in_the_end(lambda: at.store.counts())
        assert await at.store.start([(prefetched.id, prefetched.token)]) == frozenset()
        assert await in_the_end(lambda: at.settle(*map(done, (mine, taken, prefetched)))) == (Answer.APPLIED,) * 3
        assert await at.store.held(rival) == ()
        await stale.close()

    play(site, act)


def kill(servers: MongoSet, member: MongoServer) -> None:
    member.kill()


def pause(servers: MongoSet, member: MongoServer) -> None:
    member.pause()


def step_down(servers: MongoSet, member: MongoServer) -> None:
    servers.step_down()


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lose", [kill, pause, step_down], ids=lambda lose: lose.__name__)
def test_work_goes_on_while_primaries_are_lost(site: Site, lose: Callable[[MongoSet, MongoServer], None]) -> None:
    """No acknowledged write is lost, no verb takes effect twice, and no claim number is reused."""

    async def act(at: Scene) -> None:
        acknowledged, settled, numbers = set[UUID](), set[UUID](), list[int]()
        is_over = False

        async def enqueue() -> None:
            while not is_over:
                call, job = at.chance.uuid4(), at.new()
                await in_the_end(partial(at.store.enqueue, call, [job]), within=60.0)
                acknowledged.add(job.id)

        async def work() -> None:
            lease = await at.lease(ttl=LONG)
            while not is_over or acknowledged - settled:
                await in_the_end(partial(at.store.exchange, (), at.request(lease, 3)), within=60.0)
                held = await in_the_end(partial(at.store.held, lease), within=60.0)
                numbers.extend(active.token.number for active in held)
                answer = await in_the_end(partial(at.settle, *map(done, held)), within=60.0)
                assert answer == (Answer.APPLIED,) * len(held)
                settled.update(active.id for active in held)

        async def disturb() -> None:
            nonlocal is_over
            for _ in range(2):
                known = len(settled)
                while len(settled) < known + 20:
                    await SystemClock().sleep(0.01)
                lost = await asyncio.to_thread(site.servers.primary)
                await asyncio.to_thread(lose, site.servers, lost)
                await asyncio.to_thread(site.servers.primary)
                if lost.is_paused:
                    lost.resume()
                await asyncio.to_thread(site.servers.start)
            is_over = True

        await asyncio.gather(disturb(), enqueue(), enqueue(), work(), work())
        assert acknowledged == settled
        assert len(numbers) == len(set(numbers))
        assert await at.store.counts() == {("", State.COMPLETED): len(acknowledged)}

    play(site, act)


def test_a_member_that_recovers_is_not_a_wrong_url() -> None:
    """The driver reports so of one that is reached directly, and has rolled back its own writes."""
    passing = driver.ConfigurationError("Sessions are not supported by this MongoDB deployment")
    assert isinstance(statement_error("mongodb://db", passing), StoreUnavailable)
    lasting = driver.ConfigurationError("the option 'x' is unknown")
    assert isinstance(statement_error("mongodb://db", lasting), ConfigurationError)
