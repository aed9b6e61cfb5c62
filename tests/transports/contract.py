"""The contract of every transport, as tests: a subclass defines how an end of it is made, and pytest runs the rest."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from holdfast._core.answers import DueJob
from holdfast._ports.transport import ClaimSource, Deliveries, Delivery, Hint, Transport
from holdfast._system.clock import SystemRandomness

TIMEOUT = 30.0
"""Seconds: for a machine that is busy with other things; nothing here takes a second."""
MOMENT = 0.02
AGAIN = 0.5
"""Seconds after which a hint that was not received is published again: any may be lost."""
ODD = ("a.b:c-d_e", ".", "x" * 200, "= %", "ü\u202e*>", "\n\x00")

Self = TypeVar("Self", bound="TransportContract")


def ended(act: Callable[[Self], Coroutine[Any, Any, None]]) -> Callable[[Self], None]:
    """Run a coroutine as a test, which must leave no task behind."""

    @wraps(act)
    def test(self: Self) -> None:
        async def run() -> None:
            async with asyncio.timeout(TIMEOUT):
                try:
                    await act(self)
                finally:
                    while self._opened:
                        await self._opened.pop().close()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            if left:
                _, left = await asyncio.wait(left, timeout=AGAIN)
            assert left == set()

        asyncio.run(run())

    return test


class Listener:
    """What one end has received."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.received: asyncio.Queue[Hint] = asyncio.Queue()

    async def receive(self, is_meant: Callable[[Hint], bool], publish: Callable[[], Coroutine[Any, Any, None]]) -> Hint:
        """Return the first hint that is meant, published until it is received."""
        while True:
            await publish()
            try:
                async with asyncio.timeout(AGAIN):
                    while True:
                        if is_meant(hint := await self.received.get()):
                            return hint
            except TimeoutError:
                continue


class TransportContract(ABC):
    """Hints reach all listeners that they can; nothing raises, and nothing is left behind.

    Override ``make_transport``, which gives another end each time it is called, and ``carries`` for a transport without hints.
    """

    carries = True
    chance = SystemRandomness()

    @abstractmethod
    def make_transport(self) -> Transport:
        """Make another end of the transport."""

    def setup_method(self) -> None:
        """Prepare a test's list of ends."""
        self._opened: list[Transport] = []

    def open(self) -> Transport:
        """Make an end that is closed with the test."""
        self._opened.append(self.make_transport())
        return self._opened[-1]

    async def listener(self) -> Listener:
        """Make an end that listens."""
        listener = Listener(self.open())
        await listener.transport.subscribe(listener.received.put_nowait)
        return listener

    async def expect(self, listener: Listener, hint: Hint, speaker: Transport) -> None:
        """Require that it is received, if hints are carried at all."""
        if self.carries:
            await listener.receive(lambda received: received == hint, lambda: speaker.publish([hint]))
        else:
            await speaker.publish([hint])
            assert listener.received.empty()

    def job(self) -> UUID:
        """Make a new id."""
        return self.chance.uuid7()

    @ended
    async def test_every_listener_receives_a_hint_for_all(self) -> None:
        listeners, speaker = [await self.listener() for _ in range(3)], self.open()
        for hint in (Hint("mail"), Hint(ids=(self.job(),))):
            for listener in listeners:
                await self.expect(listener, hint, speaker)

    @ended
    async def test_a_publisher_receives_its_own_hint(self) -> None:
        open_ = await self.listener()
        await self.expect(open_, Hint("mail"), open_.transport)

    @ended
    async def test_it_may_be_used_from_several_threads(self) -> None:
        open_, speaker = await self.listener(), self.open()

        async def publish() -> None:
            await asyncio.to_thread(asyncio.run, speaker.publish([Hint("mail")]))

        await publish()
        if self.carries:
            await open_.receive(lambda hint: hint.queue == "mail", publish)

    @ended
    async def test_publishing_without_listeners_nothing_or_very_much_raises_nothing(self) -> None:
        speaker = self.open()
        await speaker.publish([])
        await speaker.publish(
            [Hint("mail", tuple(self.job() for _ in range(3000))), Hint(ids=tuple(self.job() for _ in range(3000)))]
        )
        await speaker.publish([Hint(f"queue-{number}") for number in range(3000)])

    @ended
    async def test_very_many_ids_and_queues_still_wake_all_listeners(self) -> None:
        open_, ids = await self.listener(), tuple(self.job() for _ in range(3000))
        if self.carries:
            await open_.receive(lambda hint: bool(hint.ids) or not hint.queue, lambda: open_.transport.publish([Hint(ids=ids)]))

    @ended
    async def test_names_may_look_like_anything(self) -> None:
        open_ = await self.listener()
        for name in ODD:
            await self.expect(open_, Hint(name), open_.transport)

    @ended
    async def test_a_closed_end_receives_nothing_and_can_be_used_again(self) -> None:
        closed, open_ = await self.listener(), await self.listener()
        await closed.transport.close()
        await closed.transport.close()
        while not closed.received.empty():
            closed.received.get_nowait()
        await self.expect(open_, Hint("mail"), closed.transport)
        assert closed.received.empty()

    @ended
    async def test_closing_what_was_never_used_is_nothing(self) -> None:
        await self.open().close()

    def test_an_event_loop_that_ends_without_a_word_leaves_nothing_behind(self) -> None:
        transport = self.make_transport()

        async def tell() -> None:
            await transport.publish([Hint("mail", (self.job(),))])

        asyncio.run(tell())
        asyncio.run(tell())
        asyncio.run(transport.close())


class DeliveryContract(TransportContract):
    """The same, and jobs are handed each to one receiver until one acknowledges them.

    ``make_transport`` must give ends whose ``ack_wait`` is ``ack_wait`` seconds.
    """

    ack_wait = 2.0

    def deliveries(self) -> Deliveries:
        """Make an end that receives deliveries."""
        found = self.open().deliveries
        assert found is not None
        return found

    async def come(self, receiver: Deliveries, most: int = 10, queues: Sequence[str] | None = None) -> list[Delivery]:
        """Receive the next deliveries that arrive."""
        while not (found := await receiver.fetch(queues, most)):
            pass
        return list(found)

    async def receiver(self, queues: Sequence[str] | None = None) -> Deliveries:
        """Make an end for which messages are kept from now on; it has asked for one."""
        receiver = self.deliveries()
        asking = asyncio.ensure_future(receiver.fetch(queues, 1))
        while not await receiver.is_drained(queues):
            await asyncio.wait({asking}, timeout=MOMENT)
        asking.cancel()
        await asyncio.wait({asking})
        return receiver

    @ended
    async def test_a_job_of_a_queue_is_delivered_to_one_receiver_with_all_its_details(self) -> None:
        receivers, speaker, jobs = [await self.receiver() for _ in range(3)], self.open(), [self.job() for _ in range(9)]
        await speaker.publish([Hint("mail", tuple(jobs[:4])), Hint("default", tuple(jobs[4:]), "crashed")])
        found: list[Delivery] = []
        first = list[
            UUID
        ]()  # a job that has waited for its receiver may have been delivered to another in between, but not as the first
        while set(first) != set(jobs):
            for receiver in receivers:
                fetched = await receiver.fetch(None, 2)
                assert len(fetched) <= 3  # and one that it had asked for before
                await receiver.acknowledge(fetched)
                found += fetched
                first += [each.job for each in fetched if each.via is ClaimSource.DELIVERY]
        assert sorted(first) == jobs
        assert {(each.queue, each.rescued) for each in found} == {("mail", ""), ("default", "crashed")}

    @ended
    async def test_only_those_of_its_queues_and_each_kind_of_receiver_on_its_own(self) -> None:
        everything, mail = await self.receiver(), await self.receiver(["mail", "a.b"])
        speaker, jobs = self.open(), [self.job() for _ in range(3)]
        await speaker.publish([Hint(queue, (job,)) for queue, job in zip(("mail", "other", "a.b"), jobs, strict=True)])
        found: set[UUID] = set()
        while len(found) < 2:
            found |= {each.job for each in await self.come(mail, queues=["mail", "a.b"])}
        assert found == {jobs[0], jobs[2]}
        found = set()
        while len(found) < 3:
            found |= {each.job for each in await self.come(everything)}
        assert found == set(jobs)

    @ended
    async def test_a_message_that_is_not_acknowledged_comes_again_as_a_redelivery(self) -> None:
        receiver, job = await self.receiver(), self.job()
        await self.open().publish([Hint("default", (job,))])
        (first,) = await self.come(receiver, 1)
        other = self.deliveries()
        (again,) = await self.come(other, 1)
        assert (first.via, again.job, again.via) == (ClaimSource.DELIVERY, job, ClaimSource.REDELIVERY)
        await other.acknowledge([again])
        await other.acknowledge([again, first])
        assert await receiver.is_drained(None)

    @ended
    async def test_who_asks_for_none_is_given_none(self) -> None:
        receiver, idle, job = await self.receiver(), self.deliveries(), self.job()
        await self.open().publish([Hint("default", (job,))])
        assert await idle.fetch(None, 0) == ()
        (come,) = await self.come(receiver, 1)
        assert (come.job, await idle.fetch(None, 0)) == (job, ())

    @ended
    async def test_waiting_jobs_are_seen_and_republished_ones_come_once_from_any_publisher(self) -> None:
        receiver, job = await self.receiver(), self.job()
        for publisher in (self.deliveries(), self.deliveries()):
            await publisher.republish([DueJob(job, "default", 7), DueJob(job, "default", 8)])
        found: list[Delivery] = []
        while len(found) < 2 or not await receiver.is_drained(None):
            fetched = await receiver.fetch(None, 10)
            await receiver.acknowledge(fetched)
            found += fetched
        assert [(each.job, each.queue, each.via) for each in found] == [(job, "default", ClaimSource.SWEEP)] * 2

    @ended
    async def test_a_queue_that_no_consumer_serves_is_not_reported_as_drained(self) -> None:
        assert await self.deliveries().is_drained(["nobody serves this"]) is False
