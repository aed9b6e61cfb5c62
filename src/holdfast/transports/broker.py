"""Hints through a broker: published in the background, and received by long poll."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from holdfast._ports import wire, wire_hints
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.transport import Hint
from holdfast.databases.http.client import HttpClient
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.transports._upkeep import PerLoop, Upkeep

MOST = 1000
"""Hints that wait to be published; further ones are dropped, and workers find the jobs by polling."""
GRACE = 1.0
"""Seconds at the end for hints that are being published."""
_OK = 200


class BrokerTransport:
    """Wakes the idle workers behind a broker, and those that are connected to its store."""

    deliveries = None

    def __init__(
        self, servers: Sequence[str], *, token: str | None, clock: Clock, chance: Randomness, certificate: str | None = None
    ) -> None:
        self._client = HttpClient(servers, token, chance, certificate=certificate)
        self._hints: PerLoop[_LoopHints] = PerLoop(lambda: _LoopHints(self._client, servers[0], clock=clock, chance=chance))

    async def publish(self, hints: Sequence[Hint]) -> None:
        """Send the hints in the background."""
        if hints:
            self._hints.here().publish(hints)

    async def subscribe(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` in the running loop from now on, for each hint that arrives."""
        self._hints.here().listen(wake)

    async def close(self) -> None:
        """Stop listening, send what waits, and close the connections."""
        await self._hints.close(lambda hints: hints)
        await self._client.close()


class _LoopHints:
    """The hints of one event loop."""

    def __init__(self, client: HttpClient, name: str, *, clock: Clock, chance: Randomness) -> None:
        self._client, self._name, self._clock, self._chance = client, name, clock, chance
        self._wakes: list[Callable[[Hint], None]] = []
        self._outbox: list[Hint] = []
        self._lock, self._is_sending = threading.Lock(), False
        self._sending: Future[None] | None = None
        self._upkeep: Upkeep[bool] | None = None

    def listen(self, wake: Callable[[Hint], None]) -> None:
        """Call ``wake`` for each hint from now on."""
        self._wakes.append(wake)
        if self._upkeep is None:
            self._upkeep = Upkeep(f"the broker at {self._name}", self._serve, clock=self._clock, chance=self._chance)

    def publish(self, hints: Sequence[Hint]) -> None:
        """Send hints soon, also if this loop ends now; those that come in the meantime leave together."""
        with self._lock:
            self._outbox += hints[: max(0, MOST - len(self._outbox))]
            is_new, self._is_sending = not self._is_sending, True
        if is_new:
            self._sending = self._client.start(self._send)

    def stop(self) -> None:
        """Stop listening soon, without waiting."""
        if self._upkeep is not None:
            self._upkeep.stop()
        if self._sending is not None:
            self._sending.cancel()

    async def close(self) -> None:
        """Send what waits, if that is possible soon, and stop listening."""
        if self._sending is not None:
            await asyncio.wait({asyncio.wrap_future(self._sending)}, timeout=GRACE)
            self._sending.cancel()
        if self._upkeep is not None:
            await self._upkeep.close()

    async def _send(self) -> None:
        try:
            while hints := self._next():
                with suppress(HoldfastError):  # the broker is away: workers poll
                    body = wire_hints.encode(hints)
                    await self._client.post(wire_hints.PATH, body, wire.CONTENT_TYPE, is_repeatable=True)
        except asyncio.CancelledError:
            self._is_sending = False
            raise

    def _next(self) -> tuple[Hint, ...]:
        with self._lock:
            hints, self._outbox = tuple(self._outbox), []
            self._is_sending = bool(hints)
            return hints

    async def _serve(self, opened: Callable[[bool], None]) -> None:
        position = ""
        while True:
            answer = await self._client.get(f"{wire_hints.PATH}?position={position}", wire_hints.LONGEST_WAIT + 5.0)
            if answer.status != _OK:
                raise StoreUnavailable(f"it answers {answer.status}: check HOLDFAST_TOKEN, which must be that of a worker")
            found = wire_hints.decode_answer(answer.body)
            if not position:
                opened(True)
            position = found.position
            for wake in self._wakes:
                for hint in found.hints:
                    wake(hint)
