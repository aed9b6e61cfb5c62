"""Brokers on one bucket: one leads, answers beats from memory, and acknowledges nothing that the bucket does not have."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.job import RescueReason, State
from holdfast._core.lifecycle import LeaseEnd
from holdfast._ports.leading import Misdirected
from holdfast.errors import ConfigurationError, StoreUnavailable
from holdfast.stores.objects.committer import Committer, Outcome, Request, tell
from holdfast.stores.objects.election import HEARTBEAT, LEADER_TTL, LOOK, Election, Phase
from holdfast.stores.objects.sightings import Sightings
from holdfast.stores.objects.store import ObjectStore
from tests.buckets.support import SkippingClock
from tests.stores.objects_world import Scripted, World, enqueue, jobs_in, names, new, opened, tidied

EXPIRED = LeaseEnd(RescueReason.EXPIRED)


class StandingClock(SkippingClock):
    """A clock on which only short pauses pass by themselves: the test itself lets brokers look."""

    async def sleep(self, seconds: float) -> None:
        if seconds >= LOOK:
            await asyncio.Event().wait()
        self.advance(seconds)


class Brokers(World):
    """A bucket, and the brokers on it."""

    def __init__(self) -> None:
        super().__init__(StandingClock())

    async def start(self, url: str, *, full: int = 10**6) -> tuple[ObjectStore, Scripted]:
        """Return a broker once it leads or follows, and its script."""
        store, bucket = self.open(full=full)
        await store.stand(url)
        return store, bucket

    async def attend(self, store: ObjectStore, after: float = 0.0) -> bool:
        """Let a broker do what it does from time to time, after some seconds; return whether it leads."""
        self.clock.advance(after)
        await store._thread.run(store._committer._attend(self.clock.monotonic()))
        return store.standing.is_leading


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    world = Brokers()
    yield world
    for store in world.opened:
        asyncio.run(store.close())


async def test_one_broker_leads_and_no_other_process_writes_or_judges(brokers: Brokers) -> None:
    (first, bucket), (direct, _) = await brokers.start("http://a:1"), brokers.open()
    second, _ = await brokers.start("http://b:1")
    assert [each.standing.is_leading for each in (first, second)] == [True, False]
    await enqueue(first, new())
    version = (await bucket.head()).version
    for other in (second, direct):
        for call in (enqueue(other, new()), other.counts(), other.expired(1)):
            with pytest.raises(Misdirected, match="http://a:1") as raised:
                await call
            assert raised.value.leader == "http://a:1"
    assert (await bucket.head()).version == version
    assert second.standing.leader == "http://a:1"
    assert first.standing.version == f"1.{version}"


async def test_a_check_by_the_leader_reports_its_epoch_and_its_last_write(brokers: Brokers) -> None:
    leader, _ = await brokers.start("http://a:1")
    brokers.clock.advance(3.0)
    found = {each.name: each for each in await leader.check()}["leader"]
    assert found.level == "ok"
    assert "the broker at http://a:1" in found.message
    assert found.message.endswith("leads in epoch 1, and wrote 3 s ago")


async def test_a_broker_takes_over_from_processes_that_write_directly(brokers: Brokers) -> None:
    direct, _ = brokers.open()
    await enqueue(direct, new())
    leader, _ = await brokers.start("http://a:1")
    with pytest.raises(Misdirected):
        await enqueue(direct, new())
    assert await leader.counts() == {("", State.AVAILABLE): 1}
    await leader.resign()
    await enqueue(direct, new())
    assert await jobs_in(brokers) == 2


async def test_plain_beats_and_reads_of_a_leader_cost_no_call_to_the_bucket(brokers: Brokers) -> None:
    leader, bucket = await brokers.start("http://a:1")
    lease = await opened(leader)
    bucket.calls.clear()
    for _ in range(20):
        brokers.clock.advance(0.1)
        assert (await leader.beat([lease])).alive == {lease}
        await leader.counts()
    assert bucket.calls.total() == 0
    await leader.beat([lease], draining=True)
    assert bucket.calls["PUT head.json"] == 1


async def test_s5_the_end_of_a_lease_that_was_beaten_since_it_was_judged_is_refused(brokers: Brokers) -> None:
    leader, _ = await brokers.start("http://a:1")
    lease = await opened(leader)
    await leader.workers()
    for _ in range(3):
        await brokers.attend(leader, 9.0)
    await brokers.attend(leader, 3.5)
    (judged,) = await leader.expired(9)
    assert (await leader.beat([lease])).alive == {lease}
    for _ in range(4):
        await brokers.attend(leader, 9.0)
    assert await leader.end_lease(lease, EXPIRED, seen=judged.seen) is None
    (again,) = await leader.expired(9)
    assert await leader.end_lease(lease, EXPIRED, seen=again.seen) == EXPIRED
    assert (await leader.beat([lease])).gone == {lease}


async def test_a_leader_that_ends_hands_over_at_once(brokers: Brokers) -> None:
    (first, bucket), (second, _) = await brokers.start("http://a:1"), await brokers.start("http://b:1")
    await enqueue(first, new())
    await first.resign()
    assert (await bucket.head()).broker is None
    with pytest.raises(Misdirected, match="is stopping"):
        await first.counts()
    assert await brokers.attend(second, LOOK)
    assert await second.counts() == {("", State.AVAILABLE): 1}
    assert (await bucket.head()).epoch == 2


@pytest.mark.parametrize("fault", ["cut", "lost"])
async def test_a_hand_over_without_an_answer_is_tried_again(brokers: Brokers, fault: str) -> None:
    leader, bucket = await brokers.start("http://a:1")
    bucket.writes.append(fault)
    await leader.resign()
    assert (await bucket.head()).broker is None


async def frozen(brokers: Brokers) -> tuple[ObjectStore, ObjectStore, UUID]:
    """Return a broker that stood still for so long that another one took over, that one, and a lease that had beaten until then."""
    (first, _), (second, _) = await brokers.start("http://a:1"), await brokers.start("http://b:1")
    lease = await opened(first)
    await second._thread.run(second._committer._look(brokers.clock.monotonic()))
    for _ in range(4):
        assert await brokers.attend(first, 8.0)
        assert (await first.beat([lease])).alive == {lease}
        assert not await brokers.attend(second)
    assert await brokers.attend(second, LEADER_TTL)
    return first, second, lease


async def test_o3_a_deposed_broker_acknowledges_nothing(brokers: Brokers) -> None:
    first, second, lease = await frozen(brokers)
    for call in (first.beat([lease]), first.counts(), enqueue(first, new())):
        with pytest.raises(Misdirected, match="http://b:1"):
            await call
    assert await second.counts() == {}


async def test_o3_answers_without_leadership_would_be_found(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Election, "may_answer", lambda self, _: self.phase is not Phase.FOLLOW)
    first, _, lease = await frozen(brokers)
    assert (await first.beat([lease])).alive == {lease}


async def test_o4_a_new_leader_ends_no_lease_before_its_whole_ttl(brokers: Brokers) -> None:
    _, second, lease = await frozen(brokers)
    assert await second.expired(9) == ()
    await brokers.attend(second, 9.0)
    assert (await second.beat([lease])).alive == {lease}
    assert await second.expired(9) == ()


@pytest.mark.parametrize("is_mutant", [False, True])
async def test_o4_sightings_kept_over_a_takeover_would_be_found(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, *, is_mutant: bool
) -> None:
    (first, _), (second, _) = await brokers.start("http://a:1"), await brokers.start("http://b:1")
    lease = await opened(first)
    stamp = first._committer._replica.book.renewed_at(lease)
    second._committer._sightings.elapsed(lease, stamp)
    if is_mutant:
        monkeypatch.setattr(Sightings, "forget", lambda _: None)
    for _ in range(4):
        await brokers.attend(first, 8.0)
        await first.beat([lease])
    await first.resign()
    assert await brokers.attend(second)
    assert [view.id for view in await second.expired(9)] == ([lease] if is_mutant else [])


@pytest.mark.parametrize("is_mutant", [False, True])
async def test_l8_sightings_kept_over_an_outage_would_be_found(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, *, is_mutant: bool
) -> None:
    leader, bucket = await brokers.start("http://a:1")
    lease = await opened(leader)
    assert await leader.expired(9) == ()
    if is_mutant:
        monkeypatch.setattr(Sightings, "forget", lambda _: None)
    bucket.writes.extend(["cut"] * 100)
    bucket.reads.extend(["reset"] * 100)
    brokers.clock.advance(25.0)
    with pytest.raises(StoreUnavailable):
        await leader.counts()
    bucket.writes.clear()
    bucket.reads.clear()
    assert [view.id for view in await leader.expired(9)] == ([lease] if is_mutant else [])


class Hasty(Committer):
    """A mutant: it answers a beat when it arrives, from the book as it is."""

    def add(self, request: Request) -> None:
        if request.verb == "beat":
            tell(request, Outcome(self._replica.book.alive(request.arguments[0])))
        else:
            super().add(request)


@pytest.mark.parametrize("is_mutant", [False, True])
async def test_a_beat_waits_for_the_end_of_its_lease_that_is_on_its_way(brokers: Brokers, *, is_mutant: bool) -> None:
    leader, bucket = await brokers.start("http://a:1")
    lease, other = await opened(leader), await opened(leader)
    answer = Future[Any]()
    request, were_done = Request("beat", ([lease, other],), {}, brokers.clock.monotonic(), answer), list[bool]()

    async def beat_comes() -> None:
        (Hasty if is_mutant else Committer).add(leader._committer, request)  # type: ignore[arg-type]
        were_done.append(answer.done())

    bucket.until_answered = beat_comes
    bucket.writes.append("slow")
    await leader.end_lease(lease, LeaseEnd(RescueReason.CLOSED))
    assert were_done == [is_mutant]
    assert (await asyncio.wrap_future(answer)).gone == {lease}


async def test_an_idle_leader_writes_one_heartbeat_in_four_seconds_and_fills_no_tail(brokers: Brokers) -> None:
    leader, bucket = await brokers.start("http://a:1")
    await enqueue(leader, new())
    bucket.calls.clear()
    for _ in range(100):
        assert await brokers.attend(leader, HEARTBEAT)
    assert bucket.calls["PUT head.json"] == 100
    head = await bucket.head()
    assert [len(commit.changes) for commit in head.tail] == [1, 0]
    await enqueue(leader, new())
    assert await jobs_in_head(brokers, leader) == 2


async def jobs_in_head(brokers: Brokers, leader: ObjectStore) -> int:
    await leader.resign()
    return await jobs_in(brokers)


@pytest.mark.parametrize("fault", ["lost", "cut", "late"])
async def test_a_leader_recognises_its_writes_as_every_writer_does(brokers: Brokers, fault: str) -> None:
    leader, bucket = await brokers.start("http://a:1", full=1)
    for _ in range(3):
        bucket.writes.append(fault)
        await enqueue(leader, new())
        await brokers.attend(leader, HEARTBEAT)
        await tidied(leader)
    assert await leader.counts() == {("", State.AVAILABLE): 3}
    assert await jobs_in_head(brokers, leader) == 3


async def test_a_registration_without_an_answer_is_followed_by_a_look(brokers: Brokers) -> None:
    store, bucket = brokers.open()
    bucket.writes.append("late")
    await store.stand("http://a:1")
    assert not store.standing.is_leading
    assert not await brokers.attend(store)  # it is written in the middle of the next one
    assert await brokers.attend(store)
    assert (await bucket.head()).epoch == 2


async def test_a_process_deposes_a_broker_that_has_been_silent_for_long(brokers: Brokers) -> None:
    (leader, bucket), (direct, _) = await brokers.start("http://a:1"), brokers.open()
    look = direct._committer.leader
    found = await direct._thread.run(look(deposes=True))
    assert found is not None
    brokers.clock.advance(LEADER_TTL)
    assert await direct._thread.run(look(deposes=False)) == found
    assert await direct._thread.run(look(deposes=True)) is None
    await enqueue(direct, new())
    assert (await bucket.head()).epoch == 2
    with pytest.raises(Misdirected):
        await enqueue(leader, new())
    assert await brokers.attend(leader)
    assert await leader.counts() == {("", State.AVAILABLE): 1}


async def test_a_broker_that_may_write_too_rarely_for_a_heartbeat_is_refused(brokers: Brokers) -> None:
    store = ObjectStore(f"{brokers.name}?interval=5s", clock=brokers.clock, chance=names)
    with pytest.raises(ConfigurationError, match="lower interval="):
        await store.stand("http://a:1")
    await store.close()


async def test_a_compaction_by_another_process_leaves_the_leader_leading(brokers: Brokers) -> None:
    (leader, bucket), (other, _) = await brokers.start("http://a:1", full=500), brokers.open()
    lease = await opened(leader)
    for _ in range(20):
        await enqueue(leader, new())
        await tidied(leader)
    before = await bucket.head()
    assert (await other.compact()).runs == 1
    after = await bucket.head()
    assert (after.epoch, after.broker, after.version) == (before.epoch, before.broker, before.version + 1)
    await enqueue(leader, new())
    assert (await leader.beat([lease])).alive == {lease}
    assert await brokers.attend(leader, HEARTBEAT)
    assert (await bucket.head()).epoch == before.epoch
    assert (await other.verify()).damage == ()
    assert (await other.inspect()).unfinished == 21


async def test_a_store_that_is_restored_over_that_of_a_broker_has_none_and_the_broker_stops(
    brokers: Brokers, tmp_path: Path
) -> None:
    (leader, bucket), (other, _) = await brokers.start("http://a:1"), brokers.open()
    await enqueue(leader, new())
    await other.back_up(str(tmp_path))
    before = await bucket.head()
    await other.restore(str(tmp_path), is_forced=True)
    head = await bucket.head()
    assert (head.broker, head.epoch) == (None, before.epoch + 1_000_000)
    for call in (leader.counts, lambda: enqueue(leader, new())):
        brokers.clock.advance(LEADER_TTL)
        with pytest.raises(ConfigurationError, match="replaced or restored"):
            await call()
    assert await jobs_in(brokers) == 1
