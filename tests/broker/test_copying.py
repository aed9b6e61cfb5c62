"""`holdfast copy` through a broker: to a store that this machine has no credentials of, and from it."""

from holdfast._core.job import NewJob
from holdfast._core.policy import Policy
from holdfast._core.requests import JobFilter
from holdfast._engine.operators.copying import Copying
from holdfast._ports.store import Store
from holdfast.opening import open_store
from holdfast.settings import Settings
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeChance
from tests.broker.support import running
from tests.buckets.support import SkippingClock

chance = FakeChance(11)


async def test_jobs_with_large_payloads_move_through_a_broker_and_back() -> None:
    clock = SkippingClock()
    first, second = MemoryStore(clock), MemoryStore(clock)
    payload = b'"%s"' % (b"a" * 250_000)
    jobs = [NewJob(id=chance.uuid7(), payload=payload, task="mail", policy=Policy(), tags=("a",)) for _ in range(60)]
    await first.enqueue(chance.uuid4(), jobs)
    with running(second, clock) as broker:
        remote = open_store(Settings.of(broker.url))
        for source, destination in ((first, remote), (remote, first)):
            copied = await copying(source, destination, clock).run()
            await source.pause(copied.paused_source, is_paused=False)
            assert (copied.moved, copied.stay) == (60, {})
        await remote.close()
    assert {row.id for row in await first.list(JobFilter(limit=100))} == {job.id for job in jobs}
    assert await second.list(JobFilter()) == ()


def copying(source: Store, destination: Store, clock: SkippingClock) -> Copying:
    """Make a copy of all queues."""
    return Copying(source, destination, only=None, clock=clock, chance=chance, report=lambda line: None)
