"""One connection to the servers: what is published, what has been requested, and what has arrived."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import NotFoundError
from nats.js.manager import JetStreamManager

from holdfast._core.answers import DueJob
from holdfast._core.transport_url import TransportUrl
from holdfast._ports.transport import Delivery, Hint
from holdfast.transports.nats import messages

API_LIMIT = 5.0
EXPIRES = 5.0
"""Seconds for which a request for jobs stands; without a new request, jobs go to other workers."""
LATE = 1.0
EXPIRED = "408"
OLDEST = 86_400.0
"""Seconds: after a day a worker has found by polling what a message could tell."""
MOST_KEPT = 1_000_000
MOST_UNACKNOWLEDGED = 50_000
MOST_WORKERS = 5_000
MOST_PUBLISHED = 1_000
"""Jobs in one call: beyond that workers poll anyway, and the publishing caller must not wait."""
MOST_IDS = 64

FAILURES = (Error, OSError, TimeoutError)

logger = logging.getLogger("holdfast")


class Session:
    """The state of one connection; a new connection starts with none."""

    def __init__(
        self, client: Client, address: TransportUrl, stream: str, *, now: Callable[[], float], wake: Callable[[Hint], None]
    ) -> None:
        self._client, self._address, self._stream = client, address, stream
        self._now, self._wake = now, wake
        self._manager = JetStreamManager(client, timeout=API_LIMIT)
        self._inbox = client.new_inbox()
        self._known: set[str] = set()
        self._asked: dict[str, tuple[int, float]] = {}
        self._arrived: list[Delivery] = []
        self._has_arrived = asyncio.Event()
        self._is_listening = self._is_receiving = False

    # publishing

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send each job of a queue to one worker, everything else to all. Not confirmed: the republisher finds what is lost."""
        published = 0
        for hint in hints:
            if not (hint.queue and hint.ids):
                await self._client.publish(messages.wake_subject(self._stream), messages.encode(_cut(hint)))
                continue
            subject = messages.subject_of(self._stream, hint.queue)
            for job in hint.ids[: max(0, MOST_PUBLISHED - published)]:
                await self._client.publish(subject, messages.encode(messages.Message(job, hint.rescued)))
            published += len(hint.ids)

    async def republish(self, jobs: Sequence[DueJob]) -> None:
        """Publish due jobs again. The stream keeps one message of those with the same id within two minutes, from any sender."""
        for job in jobs:
            message = messages.encode(messages.Message(job.job, again=True))
            headers = {"Nats-Msg-Id": f"{job.job}:{job.claim_number}"}
            await self._client.publish(messages.subject_of(self._stream, job.queue), message, headers=headers)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge without confirmation: a message whose acknowledgement is lost comes again, and is acknowledged again."""
        for delivery in deliveries:
            await self._client.publish(delivery.receipt, b"+ACK")

    # receiving

    async def listen(self) -> None:
        """Receive from now on the hints that go to every worker."""
        if not self._is_listening:
            await self._client.subscribe(messages.wake_subject(self._stream), cb=self._on_wake)
            self._is_listening = True

    async def ask(self, queues: Sequence[str] | None, most: int) -> None:
        """Keep requests standing for ``most`` jobs of these queues, shared among them. Missing stream and consumers are made,
        also when another program has deleted them."""
        if not self._is_receiving:
            await self._client.subscribe(f"{self._inbox}.*", cb=self._on_message)
            self._is_receiving = True
        names = messages.consumers(queues)
        share = max(1, most // max(1, len(names)))
        for name in names:
            standing, until = self._asked.get(name, (0, 0.0))
            if self._now() > until:
                standing = 0  # its end was not reported, or the report was lost
            if standing >= share:
                continue
            await self._require(name)
            self._asked[name] = share, self._now() + EXPIRES + LATE
            wish = {"batch": share - standing, "expires": round(EXPIRES * 1e9)}
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
            await self._client.publish(subject, messages.encode(wish), reply=f"{self._inbox}.{name}")

    async def receive(self, timeout: float) -> tuple[Delivery, ...]:
        """Return what has arrived; if nothing has, wait up to ``timeout`` seconds for the first."""
        try:
            async with asyncio.timeout(timeout if not self._arrived else 0):
                await self._has_arrived.wait()
        except TimeoutError:
            pass
        come, self._arrived = tuple(self._arrived), []
        self._has_arrived.clear()
        return come

    async def is_drained(self, queues: Sequence[str] | None) -> bool:
        """Return whether no consumer of these queues has a message left."""
        for name in messages.consumers(queues):
            if (await self._manager.consumer_info(self._stream, name)).num_pending:
                return False
        return True

    async def require_answers(self) -> None:
        """Raise what a request for jobs would: where there is no JetStream, or this user may not ask it. It makes nothing."""
        await self._manager.account_info()

    # inside

    async def _on_wake(self, message: Msg) -> None:
        hint = messages.hint_of(message.data)
        if hint is not None:
            self._wake(hint)

    async def _on_message(self, message: Msg) -> None:
        if not message.reply:
            self._on_status(message)
            return
        metadata = message.metadata
        standing, until = self._asked.get(metadata.consumer, (0, 0.0))
        self._asked[metadata.consumer] = max(0, standing - 1), until
        delivery = messages.delivery_of(message.subject, message.data, metadata.num_delivered, message.reply)
        if delivery is None:
            await self._client.publish(message.reply, b"+TERM")
            return
        self._arrived.append(delivery)
        self._has_arrived.set()

    def _on_status(self, message: Msg) -> None:
        """Note that a request has ended. An expired one is replaced at once; for any other reason the consumer is checked first."""
        name, headers = message.subject.removeprefix(f"{self._inbox}."), message.headers or {}
        standing, until = self._asked.pop(name, (0, 0.0))
        if headers.get("Status") == EXPIRED:
            left = headers.get("Nats-Pending-Messages", "")
            self._asked[name] = max(0, standing - int(left)) if left.isdecimal() else 0, until
            self._has_arrived.set()
        else:
            self._known.discard(name)

    async def _require(self, name: str) -> None:
        if name in self._known:
            return
        await self._require_stream()
        config = ConsumerConfig(
            durable_name=name,
            filter_subject=messages.filter_of(self._stream, name),
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self._address.ack_wait,
            max_deliver=-1,
            max_ack_pending=MOST_UNACKNOWLEDGED,
            max_waiting=MOST_WORKERS,
            inactive_threshold=OLDEST,
        )
        await self._manager.add_consumer(self._stream, config)
        self._known.add(name)

    async def _require_stream(self) -> None:
        """Make the stream if it is missing; one that exists is used as it is, because its owner may have chosen its size."""
        try:
            await self._manager.stream_info(self._stream)
            return
        except NotFoundError:
            pass
        config = StreamConfig(
            name=self._stream,
            subjects=[messages.subjects(self._stream)],
            retention=RetentionPolicy.INTEREST,
            discard=DiscardPolicy.OLD,
            max_msgs=MOST_KEPT,
            max_age=OLDEST,
            num_replicas=self._address.replicas,
        )
        await self._manager.add_stream(config)


def _cut(hint: Hint) -> Hint:
    return hint if len(hint.ids) <= MOST_IDS else Hint(hint.queue, hint.ids[:MOST_IDS], hint.rescued)
