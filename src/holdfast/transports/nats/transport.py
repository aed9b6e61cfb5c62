"""JetStream as transport: a stream of job ids, a durable pull consumer for each queue. It may forget everything."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from holdfast._core.answers import DueJob
from holdfast._core.transport_url import TransportUrl
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Delivery, Hint
from holdfast.transports._upkeep import PerLoop, Upkeep
from holdfast.transports.nats.complaints import complaint, refusal
from holdfast.transports.nats.encrypted import EncryptedClient
from holdfast.transports.nats.session import FAILURES, Session

CONNECT_LIMIT, CLOSING = 5.0, 1.0
PUBLISH_LIMIT = 0.25
"""Seconds for which publishing may delay an enqueue: only the first time, and when a server stops reading."""
FETCH_WAIT = 3.0
PING, MOST_PINGS = 5, 2
"""Seconds between pings, and how many may be unanswered: so a server that is gone without closing the connection is noticed."""

logger = logging.getLogger("holdfast")


class NatsTransport:
    """Publishes and receives while a server answers; otherwise every worker polls."""

    def __init__(self, address: TransportUrl, stream: str, *, clock: Clock, chance: Randomness) -> None:
        self._address, self._stream = address, stream
        self._clock, self._chance = clock, chance
        self._posts: PerLoop[_LoopConnection] = PerLoop(self._open)
        self._complaint = ""

    @property
    def deliveries(self) -> "NatsTransport":
        return self

    @property
    def acks_on_finish(self) -> bool:
        return self._address.ack == "finish"

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send hints, or drop them while no server answers."""
        if hints:
            await self._send(lambda session: session.publish(hints))

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that goes to every worker."""
        post = self._posts.here()
        post.wakes.append(wake)
        await self._send(lambda session: session.listen())

    async def fetch(self, queues: Sequence[str] | None, most: int) -> Sequence[Delivery]:
        """Request ``most`` jobs and wait for the first."""
        session = await self._posts.here().upkeep.until_up(FETCH_WAIT if most else 0.0)
        if session is None:
            return ()
        try:
            if most:
                await session.ask(queues, most)
        except FAILURES as error:
            self._complain(error)
            await self._clock.sleep(FETCH_WAIT * (0.75 + 0.25 * self._chance.jitter()))
        else:
            self._complaint = ""
        return await session.receive(FETCH_WAIT if most else 0.0)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge these deliveries, so that they do not come again."""
        if deliveries:
            await self._send(lambda session: session.acknowledge(deliveries))

    async def is_drained(self, queues: Sequence[str] | None) -> bool:
        """Return whether no message waits; ``False`` if that is unknown."""
        session = await self._posts.here().upkeep.session(PUBLISH_LIMIT)
        try:
            return session is not None and await session.is_drained(queues)
        except NotFoundError:
            return False  # no worker has made the consumers yet
        except FAILURES as error:
            self._complain(error)
            return False

    async def problem(self) -> str:
        """Return why JetStream hands out no jobs; empty if it answers, or if no server does."""
        session = await self._posts.here().upkeep.session(PUBLISH_LIMIT)
        try:
            if session is not None:
                await session.require_answers()
        except FAILURES as error:
            return complaint(error, self._stream)
        return ""

    async def republish(self, jobs: Sequence[DueJob]) -> None:
        """Publish these jobs once more."""
        await self._send(lambda session: session.republish(jobs))

    async def close(self) -> None:
        """Close the running loop's connection, and soon those of other loops."""
        await self._posts.close(lambda post: post.upkeep)

    async def _send(self, act: Callable[[Session], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(PUBLISH_LIMIT):
                session = await self._posts.here().upkeep.session(PUBLISH_LIMIT)
                if session is not None:
                    await act(session)
        except FAILURES as error:
            logger.debug("a message was not sent: %s", type(error).__name__)

    def _open(self) -> "_LoopConnection":
        return _LoopConnection(self._address, self._stream, clock=self._clock, chance=self._chance)

    def _complain(self, error: Exception) -> None:
        found = complaint(error, self._stream)
        if found != self._complaint:
            self._complaint = found
            logger.warning("NATS at %s delivers no jobs; workers poll instead: %s", self._address.public, found)


class _LoopConnection:
    """The connection of one event loop."""

    def __init__(self, address: TransportUrl, stream: str, *, clock: Clock, chance: Randomness) -> None:
        self._address, self._stream, self._clock = address, stream, clock
        self.wakes: list[Callable[[Hint], None]] = []
        self.upkeep: Upkeep[Session] = Upkeep(f"NATS at {address.public}", self._serve, clock=clock, chance=chance)

    async def _serve(self, opened: Callable[[Session], None]) -> None:
        is_encrypted = self._address.servers[0].startswith("tls://")
        client, is_lost = EncryptedClient() if is_encrypted else Client(), asyncio.Event()

        async def lose() -> None:
            is_lost.set()

        try:
            await self._connect(client, lose)
            session = Session(client, self._address, self._stream, now=self._clock.monotonic, wake=self._wake)
            if self.wakes:
                await session.listen()
                self._wake(Hint())  # hints may have been sent while nothing listened
            opened(session)
            while not (is_lost.is_set() or client.is_closed):  # the client may close itself without a callback
                with suppress(TimeoutError):
                    async with asyncio.timeout(PING):
                        await is_lost.wait()
        finally:
            try:
                async with asyncio.timeout(CLOSING):
                    await client.close()  # published messages are sent before
            except FAILURES as error:
                logger.debug("NATS: %s", type(error).__name__)

    async def _connect(self, client: Client, lose: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(CONNECT_LIMIT):
                await client.connect(
                    list(self._address.servers),
                    user=self._address.user,
                    password=self._address.password,
                    token=self._address.token,
                    name="holdfast",
                    allow_reconnect=False,  # Upkeep does that, with pauses that differ between processes
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=round(CONNECT_LIMIT),
                    ping_interval=PING,
                    max_outstanding_pings=MOST_PINGS,
                    error_cb=_note,
                    closed_cb=lose,
                )
        except FAILURES as error:
            if found := refusal(error):
                raise PermissionError(found) from error
            raise

    def _wake(self, hint: Hint) -> None:
        for wake in tuple(self.wakes):
            wake(hint)


async def _note(error: Exception) -> None:
    logger.debug("NATS: %s", type(error).__name__)
