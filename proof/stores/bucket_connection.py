"""The bucket of a world as one process reaches it: each call meets the fate that its connection decides."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

from holdfast._ports.bucket import Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast._ports.clock import Clock
from holdfast.databases.buckets.object_bucket import TIMEOUT
from holdfast.stores.objects.head import KEY
from proof.checker.history import Event
from proof.simulator.call_outcomes import Fate, Fault, Faults
from proof.stores.gateways import Ask, Carry

BUCKET = "memory-object://"
"""Begins the URL, with which errors begin."""
_REFUSALS = (BucketProblem.CONDITION, BucketProblem.CONDITION, BucketProblem.SERVER, BucketProblem.THROTTLED)


class SharedBucket(Protocol):
    """The bucket behind all connections, whose calls take no time."""

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged: ...
    async def older(self, key: str, unless: str | None) -> Found | Absent | Unchanged: ...
    async def put(self, key: str, body: bytes, match: str | Absent | None, events: Sequence[Event]) -> str: ...
    async def delete(self, key: str) -> None: ...
    async def below(self, folder: str = "") -> tuple[Listed, ...]: ...


class BucketConnection:
    """``changes``: returns the events that a write of the head makes true. ``carry`` runs a call that was sent, also after its
    sender's end, and ``crash`` ends the sender. ``note`` gets the events of each call that has reached the bucket."""

    def __init__(
        self,
        bucket: SharedBucket,
        clock: Clock,
        faults: Faults,
        *,
        changes: Callable[[], Sequence[Event]],
        carry: Carry,
        crash: Callable[[], None],
        note: Callable[[Sequence[Event]], None],
    ) -> None:
        self._bucket, self._clock, self._faults = bucket, clock, faults
        self._changes, self._carry, self._crash, self._note = changes, carry, crash, note

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        """Read an object, or what a cache or a gateway makes of it."""
        fate, ask = self._faults.draw("get"), self._noted(self._bucket.get, key, unless)
        match fate.fault:
            case Fault.WRONG_BEFORE:
                found: Found | Absent | Unchanged = await self._travel(fate, partial(self._bucket.older, key, unless))
                return found
            case Fault.WRONG_AFTER:
                found = await self._travel(fate, ask)
                if isinstance(found, Found) and key == KEY:
                    return Found(found.body[: len(found.body) // 2], found.etag, found.modified)
                return found
            case Fault.ANSWER_LOST | Fault.LATE:
                await self._fail(fate, "get")
            case _:
                found = await self._travel(fate, ask)
                return found

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        """Write an object, or not; whether it was written, the answer does not always say."""
        fate, events = self._faults.draw("put"), tuple(self._changes()) if key == KEY else ()
        ask = self._noted(self._bucket.put, key, body, match, events, events=events)
        match fate.fault:
            case Fault.WRONG_BEFORE:
                await self._refuse(fate)
            case Fault.WRONG_AFTER:
                await self._clock.sleep(fate.delay)
                await ask()
                await self._refuse(fate)
            case Fault.ANSWER_LOST:
                await self._clock.sleep(fate.delay)
                await ask()
                await self._fail(fate, "put")
            case Fault.LATE:
                self._carry(self._deliver(fate.lateness, ask))
                await self._fail(fate, "put")
            case Fault.TWICE:
                self._carry(self._deliver(fate.lateness, ask))
        answer: str = await self._travel(fate, ask)
        return answer

    async def delete(self, key: str) -> None:
        """Delete an object, unless the call meets a fault."""
        await self._travel(self._faults.draw("delete"), partial(self._bucket.delete, key))

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        """Return all objects below a folder."""
        return await self._bucket.below(folder)

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _noted(self, ask: Callable[..., Awaitable[Any]], *arguments: Any, events: Sequence[Event] = ()) -> Ask:
        async def arrive() -> Any:
            answer = await ask(*arguments)
            self._note(events)
            return answer

        return arrive

    async def _travel(self, fate: Fate, ask: Ask) -> Any:
        if (standstill := self._faults.standstill()) > 0 and fate.fault is not Fault.BEFORE:
            return await self._arrive(self._deliver(standstill, ask))
        match fate.fault:
            case Fault.BEFORE:
                await self._fail(fate, "call")
            case Fault.SLOW:
                return await self._arrive(self._deliver(fate.slow_way_there, ask, fate.slow_way_back))
            case Fault.IN_FLIGHT:
                return await self._arrive(self._deliver(fate.slow_way_there, ask))
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER:
                if fate.fault is Fault.CRASH_AFTER:
                    await ask()
                self._crash()
                await asyncio.get_running_loop().create_future()
        if fate.luck.side < 0.5:  # the request takes the time, or the answer
            await self._clock.sleep(fate.delay)
            return await ask()
        answer = await ask()
        await self._clock.sleep(fate.delay)
        return answer

    async def _arrive(self, delivery: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a call that is on its way: its sender can only stop waiting, and the call still arrives."""
        sent, waiting = self._carry(delivery), asyncio.ensure_future(self._clock.sleep(TIMEOUT))
        await asyncio.wait([sent, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not sent.done():
            raise BucketUnavailable(f"{BUCKET}: no answer in time", BucketProblem.UNREACHABLE)
        return sent.result()

    async def _deliver(self, there: float, ask: Callable[[], Awaitable[Any]], back: float = 0.0) -> Any:
        await self._clock.sleep(there)
        answer = await ask()
        await self._clock.sleep(back)
        return answer

    async def _fail(self, fate: Fate, verb: str) -> NoReturn:
        await self._clock.sleep(min(fate.error_delay, TIMEOUT))
        raise BucketUnavailable(f"{BUCKET}: {verb}: no connection, or no answer", BucketProblem.UNREACHABLE)

    async def _refuse(self, fate: Fate) -> NoReturn:
        await self._clock.sleep(fate.delay)
        problem = _REFUSALS[int(fate.luck.side * len(_REFUSALS))]
        raise BucketUnavailable(f"{BUCKET}: put: {problem}", problem)
