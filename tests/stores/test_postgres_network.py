"""The PostgreSQL store on a bad network: a call whose outcome is unknown may be sent again, and takes effect once."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

import pytest

from holdfast._core.answers import Answer, EnqueueAnswer
from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast.databases.postgres import database as connect
from holdfast.errors import StoreUnavailable
from holdfast.testing.contracts.scene import Scene, done, play, raised
from tests.e2e.waiting import STALL, eventually
from tests.servers.proxy import TcpProxy
from tests.stores.postgres_faulty_databases import Site

CLOSED = LeaseEnd(RescueReason.CLOSED)
SHORT = 0.5

Way = Literal["up", "down"]
ways = pytest.mark.parametrize("way", ["up", "down"])


@pytest.fixture
def site(far: tuple[Site, TcpProxy]) -> Site:
    return far[0]


@pytest.fixture
def proxy(far: tuple[Site, TcpProxy]) -> TcpProxy:
    return far[1]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time after which a call without an answer fails."""
    monkeypatch.setattr(connect, "ANSWER_LIMIT", SHORT)


def sizes() -> Iterator[int]:
    """Yield the bytes at which to cut: nearly every byte first, then farther and farther apart."""
    size = 0
    while True:
        yield size
        size += 1 + size // 2


async def is_cut(at: Scene, proxy: TcpProxy, way: Way, size: int, act: Callable[[], Awaitable[object]]) -> bool:
    """Return whether an action failed whose connection was reset after that many of its bytes."""
    await at.store.counts()  # its connection is set up
    proxy.cut_after(**{way: size})
    try:
        await act()
    except StoreUnavailable:
        return True
    finally:
        proxy.cut_after()
    return False


@ways
def test_an_enqueue_that_was_cut_anywhere_is_sent_again_and_inserts_once(site: Site, proxy: TcpProxy, way: Way) -> None:
    async def act(at: Scene) -> None:
        cuts = 0
        for size in sizes():
            call, jobs = at.chance.uuid4(), [at.new(), at.new(payload=b"x" * 2000)]
            cut = await is_cut(at, proxy, way, size, lambda: at.store.enqueue(call, jobs))  # noqa: B023
            assert await at.store.enqueue(call, jobs) == EnqueueAnswer()
            cuts += 1
            if not cut:
                break
        assert await at.store.counts() == {("", State.AVAILABLE): 2 * cuts}
        assert cuts > 10

    play(site, act)


@ways
def test_an_outcome_that_was_cut_anywhere_is_sent_again_and_counts_once(site: Site, proxy: TcpProxy, way: Way) -> None:
    async def act(at: Scene) -> None:
        for size in sizes():
            good, bad = await at.running(), await at.running()
            moves = [done(good), raised(bad)]
            cut = await is_cut(at, proxy, way, size, lambda: at.store.exchange(moves))  # noqa: B023
            assert await at.settle(*moves) == (Answer.APPLIED, Answer.APPLIED)
            assert await at.state(good.id) is State.COMPLETED
            row = await at.row(bad.id)
            assert (row.failures, len(row.attempts)) == (1, 1)
            if not cut:
                return

    play(site, act)


@ways
def test_a_claim_that_was_cut_anywhere_is_found_by_the_audit(site: Site, proxy: TcpProxy, way: Way) -> None:
    async def act(at: Scene) -> None:
        lease, taken = await at.lease(), set()
        for size in sizes():
            await at.enqueue(at.new(), at.new(), at.new())
            request = at.request(lease, 2)
            cut = await is_cut(at, proxy, way, size, lambda: at.store.exchange([], request))  # noqa: B023
            held = [active for active in await at.store.held(lease) if active.token.claim == request.claim]
            assert len(held) in ((0, 2) if cut else (2,))
            assert not taken & {active.id for active in held}
            assert await at.settle(*map(done, held)) == (Answer.APPLIED,) * len(held)
            taken |= {active.id for active in held}
            if not cut:
                break
        assert await at.store.held(lease) == ()

    play(site, act)


@ways
def test_a_lease_that_was_cut_anywhere_opens_beats_and_ends(site: Site, proxy: TcpProxy, way: Way) -> None:
    async def act(at: Scene) -> None:
        for size in sizes():
            lease = at.new_lease()
            cuts = [await is_cut(at, proxy, way, size, lambda: at.store.open_lease(lease))]  # noqa: B023
            assert await at.store.open_lease(lease)
            cuts += [await is_cut(at, proxy, way, size, lambda: at.store.beat([lease.id]))]  # noqa: B023
            assert (await at.store.beat([lease.id])).alive == {lease.id}
            cuts += [await is_cut(at, proxy, way, size, lambda: at.store.end_lease(lease.id, CLOSED))]  # noqa: B023
            assert await at.store.end_lease(lease.id, CLOSED) == CLOSED
            if not any(cuts):
                return

    play(site, act)


def test_a_verb_whose_answer_is_lost_has_taken_effect(site: Site, proxy: TcpProxy, impatient: None) -> None:
    async def act(at: Scene) -> None:
        first, second = await at.running(), await at.running()
        await at.settle(done(first))  # the server knows the statement
        proxy.blackhole("down")
        with pytest.raises(StoreUnavailable):
            await at.settle(done(second))
        proxy.restore()
        expected = State.RUNNING if at.store._location.is_pooled else State.COMPLETED  # type: ignore[attr-defined]
        assert await at.state(second.id) is expected  # behind a pooler the answer to BEGIN was lost
        assert await at.settle(done(second)) == (Answer.APPLIED,)

    play(site, act)


def test_requests_that_are_lost_leave_no_trace(site: Site, proxy: TcpProxy, impatient: None) -> None:
    async def act(at: Scene) -> None:
        active = await at.running()
        proxy.blackhole("up")
        with pytest.raises(StoreUnavailable):
            await at.settle(done(active))
        proxy.restore()
        assert await at.state(active.id) is State.RUNNING
        assert await at.settle(done(active)) == (Answer.APPLIED,)

    play(site, act)


def test_a_connection_that_only_the_server_gave_up_costs_one_answer(site: Site, proxy: TcpProxy, impatient: None) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        proxy.half_open()
        with pytest.raises(StoreUnavailable):
            await at.state(job)
        assert await at.state(job) is State.AVAILABLE

    play(site, act)


def test_idle_connections_that_were_reset_cost_nothing(site: Site, proxy: TcpProxy) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        await asyncio.gather(*(at.state(job) for _ in range(4)))
        proxy.reset()
        idle = at.store._here().shared._free  # type: ignore[attr-defined]
        assert len(idle) > 1
        await eventually(lambda: all(link.is_closed() for link in idle), within=STALL)
        assert await asyncio.gather(*(at.state(job) for _ in range(4))) == [State.AVAILABLE] * 4

    play(site, act)


def test_a_store_works_again_once_its_server_accepts_connections(site: Site, proxy: TcpProxy) -> None:
    async def act(at: Scene) -> None:
        (job,) = await at.enqueue(at.new())
        proxy.cut()
        with pytest.raises(StoreUnavailable):
            await at.state(job)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await at.state(job)
        proxy.restore()
        assert await at.state(job) is State.AVAILABLE

    play(site, act)


def test_a_call_that_its_caller_gives_up_harms_no_later_one(site: Site, proxy: TcpProxy) -> None:
    async def act(at: Scene) -> None:
        lease = await at.lease()
        proxy.delay(0.005)
        for milliseconds in range(1, 30, 2):
            call, job = at.chance.uuid4(), at.new()
            enqueuing = asyncio.ensure_future(at.store.enqueue(call, [job]))
            await asyncio.wait([enqueuing], timeout=milliseconds / 1000)
            enqueuing.cancel()
            assert await at.store.enqueue(call, [job]) == EnqueueAnswer()
            assert (await at.store.beat([lease])).alive == {lease}
        assert await at.store.counts() == {("", State.AVAILABLE): 15}

    play(site, act)


def test_a_far_server_is_used_by_many_at_once(site: Site, proxy: TcpProxy) -> None:
    async def act(at: Scene) -> None:
        proxy.delay(0.01)
        await asyncio.gather(*(at.enqueue(at.new()) for _ in range(40)))
        leases = await asyncio.gather(*(at.lease() for _ in range(4)))
        claims = await asyncio.gather(*(at.claim(lease, 15) for lease in leases))
        active_jobs = [claim.job for found in claims for claim in found]
        assert len({active.id for active in active_jobs}) == 40
        answers = await asyncio.gather(*(at.settle(done(active)) for active in active_jobs))
        assert set(answers) == {(Answer.APPLIED,)}

    play(site, act)


class Doorman:
    """Takes connections, counts them, and closes them."""

    def __init__(self) -> None:
        self.count = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.port = self._listener.getsockname()[1]

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._is_over:
                    return
                self.count += 1

    def __enter__(self) -> "Doorman":
        self._is_over = False
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()


def test_many_calls_that_wait_for_a_server_try_one_connection() -> None:
    with Doorman() as door:

        async def act(at: Scene) -> None:
            answers = await asyncio.gather(*(at.store.counts() for _ in range(50)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            assert door.count <= 10

        play(Site(f"postgresql://postgres@127.0.0.1:{door.port}/postgres?sslmode=disable"), act)
