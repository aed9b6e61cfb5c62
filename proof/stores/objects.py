"""A store like object storage: each write replaces the version it was composed on, or nothing.

A late write finds another version (412) and changes nothing. Two writes at once are refused (409) and composed again.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from holdfast._ports.wire import READS
from holdfast.errors import StoreUnavailable
from proof.simulator.hosts import SimClock
from proof.stores.gateways import Ask, Gateway, as_store
from proof.stores.recording_store import Witness

TRIES = 8


class ObjectGateway(Gateway):
    """The gateway of one process. ``longest``: the most seconds between the read of a version and the write composed on it."""

    def __init__(
        self, store: Witness, introduce: Callable[[], None], clock: SimClock, numbers: random.Random, *, longest: float
    ) -> None:
        super().__init__(as_store(store), introduce)
        self._versions, self._clock, self._numbers, self._longest = store.versions, clock, numbers, longest

    async def write(self, verb: str, arguments: tuple[Any, ...], ask: Ask) -> Any:
        """Read the version, compose, and write if the version is still the same; else try again."""
        what = _objects(verb, arguments)
        for _ in range(TRIES):
            composed_on = self._version(what)
            await self._clock.sleep(self._numbers.random() * self._longest)
            if self._version(what) == composed_on:
                return await ask()
        raise StoreUnavailable(f"{verb}: another write came first in each of {TRIES} tries")

    def late_copy(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any], ask: Ask) -> Ask:
        """Compose the late copy on the version of now: it changes nothing if another write came before it arrives."""
        if verb in READS:
            return ask
        what = _objects(verb, arguments)
        composed_on = self._version(what)

        async def arrive() -> Any:
            return await self._ask(verb, arguments, keywords) if self._version(what) == composed_on else None

        return arrive

    def _version(self, what: Sequence[UUID | None]) -> int:
        return sum(self._versions[each] for each in what)


def _objects(verb: str, arguments: tuple[Any, ...]) -> Sequence[UUID | None]:
    """Return the objects that a write replaces: some jobs, some leases, or the list of all (``None``)."""
    match verb:
        case "exchange" if len(arguments) < 2 or arguments[1] is None:
            return [move.job for move in arguments[0]]
        case "start":
            return [job for job, _ in arguments[0]]
        case "report" | "annotate":
            return [each.job for each in arguments[0]]
        case "record_step" | "take_signal" | "signal":
            return [arguments[0]]
        case "beat":
            return [*arguments[0]]
        case "open_lease":
            return [arguments[0].id]
        case "end_lease":
            return [arguments[0]]
        case _:
            return [None]
