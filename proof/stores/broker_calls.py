"""Calls of processes to brokers: the real client and the real ASGI application, with a network between them that decides their fate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from errno import ECONNREFUSED
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from aiohttp import ClientConnectorError, ClientOSError, ServerDisconnectedError
from msgspec import Struct
from starlette.types import ASGIApp, Message

from holdfast._core.job import Token
from holdfast._core.requests import ClaimRequest
from holdfast._ports import wire
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.store import Store
from holdfast.databases.http.client import HttpClient
from holdfast.stores.remote.store import RemoteStore
from proof.checker.history import Event, History, Phase
from proof.simulator.call_outcomes import Fate, Fault, Faults
from proof.simulator.loop import Process, VirtualLoop
from proof.stores.bucket_stores import CALLER, VirtualThread
from proof.stores.gateways import Carry

BROKER = "broker"
"""A word in each error of a client that reaches none."""
_FAILED = b"the broker's store failed with"  # an error of a store that is not one of Holdfast's
_OF_PROXIES = (502, 503, 504)
Result = TypeVar("Result")
Ask = Callable[[], Awaitable["Response"]]


class Response(Struct, frozen=True):
    """The answer of a server, or of a proxy before it."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""

    async def read(self) -> bytes:
        return self.body


class Listener:
    """A broker's process that accepts calls. Those that it has not answered end with it."""

    def __init__(self, loop: VirtualLoop, process: Process, application: ASGIApp) -> None:
        self._loop, self._process, self._application = loop, process, application
        self._calls = dict[asyncio.Future[Response], None]()
        process.on_exit.append(lambda _: self._break())

    @property
    def is_idle(self) -> bool:
        """Whether all calls are answered."""
        return not self._calls

    async def answer(self, path: str, body: bytes, caller: str) -> Response:
        """Answer a call of that process. ``ServerDisconnectedError``: this process ended first."""
        if self._process.is_dead:
            raise ServerDisconnectedError
        answered: asyncio.Future[Response] = self._loop.create_future()
        self._calls[answered] = None
        context = self._loop.context_of(self._process)
        context.run(CALLER.set, caller)
        task = self._loop.create_task(_serve(self._application, path, body), context=context)
        task.add_done_callback(partial(self._leave, answered), context=self._loop.context_of(self._process))
        return await answered

    def _leave(self, answered: "asyncio.Future[Response]", task: "asyncio.Task[Response]") -> None:
        self._calls.pop(answered, None)
        if (error := task.exception()) is not None:
            self._loop.complaints.append(f"{self._process.name} failed to answer: {error!r}")
            error = ServerDisconnectedError()
        elif _FAILED in task.result().body:
            self._loop.complaints.append(f"{self._process.name}: {task.result().body!r}")
        if answered.done():
            return
        if error is None:
            answered.set_result(task.result())
        else:
            answered.set_exception(error)

    def _break(self) -> None:
        calls, self._calls = self._calls, {}
        for answered in calls:
            if not answered.done():
                answered.set_exception(ServerDisconnectedError())


async def _serve(application: ASGIApp, path: str, body: bytes) -> Response:
    parts, headers = list[bytes](), [(b"host", b"127.0.0.1"), (b"content-type", wire.CONTENT_TYPE.encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7700)}
    begun: Message = {}

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.update(message)
        else:
            parts.append(message.get("body", b""))

    await application(scope, receive, send)
    return Response(begun["status"], {name.decode(): value.decode() for name, value in begun["headers"]}, b"".join(parts))


class Unconnected(ClientConnectorError):
    """Nothing listens there, or it cannot be reached."""

    def __init__(self, server: str) -> None:
        OSError.__init__(self, ECONNREFUSED, server)
        self._server = server

    def __str__(self) -> str:
        return f"cannot connect to {self._server}"


class BrokerCalls:
    """The calls of one process. ``listeners``: of the world, by URL. ``carry`` and ``crash``: as for calls to the bucket."""

    def __init__(
        self,
        listeners: Mapping[str, Listener],
        process: Process,
        clock: Clock,
        faults: Faults,
        history: History,
        now: Callable[[], float],
        *,
        thread: VirtualThread,
        carry: Carry,
        crash: Callable[[], None],
    ) -> None:
        self._listeners, self._process, self._clock, self._faults = listeners, process, clock, faults
        self._history, self._now, self._carry, self._crash, self._thread = history, now, carry, crash, CallThread(thread)

    def store(self, chance: Randomness, url: str) -> Store:
        """Return the store behind a broker."""
        return cast(Store, SimulatedRemote(SimulatedClient(url, chance, self, self._thread), url, chance))

    @asynccontextmanager
    async def post(self, url: str, *, data: bytes, headers: Mapping[str, str], allow_redirects: bool) -> AsyncIterator[Response]:
        """Send a call, as a session of aiohttp does."""
        del headers, allow_redirects
        server, separator, verb = url.partition(wire.PATH)
        fate, listener = self._faults.draw(verb), self._listeners.get(server)
        if listener is None:
            await self._clock.sleep(fate.delay)
            raise Unconnected(server)
        yield await self._travel(fate, verb, data, server, partial(listener.answer, separator + verb, data, self._process.name))

    async def _travel(self, fate: Fate, verb: str, body: bytes, server: str, ask: Ask) -> Response:
        match fate.fault:
            case Fault.BEFORE:
                if fate.is_refusing or fate.luck.side < 0.5:
                    await self._clock.sleep(fate.delay)
                    raise Unconnected(server)
                await self._fail(fate)
            case Fault.ANSWER_LOST:
                await self._clock.sleep(fate.delay)
                await ask()
                await self._fail(fate)
            case Fault.LATE:
                self._carry(self._deliver(fate.lateness, ask))
                await self._fail(fate)
            case Fault.TWICE:
                self._note_copy(verb, body)
                self._carry(self._deliver(fate.lateness, ask))
            case Fault.SLOW:
                return await self._deliver(fate.slow_way_there, ask, fate.slow_way_back)
            case Fault.IN_FLIGHT:
                sent = self._carry(self._deliver(fate.slow_way_there, ask))
                await asyncio.wait([sent])
                found: Response = sent.result()
                return found
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER:
                if fate.fault is Fault.CRASH_AFTER:
                    await ask()
                self._crash()
                await asyncio.get_running_loop().create_future()
            case Fault.WRONG_BEFORE | Fault.WRONG_AFTER:
                await self._clock.sleep(fate.delay)
                if fate.fault is Fault.WRONG_AFTER:
                    await ask()
                return Response(_OF_PROXIES[int(fate.luck.side * len(_OF_PROXIES))])
        there, back = (fate.delay, 0.0) if fate.luck.side < 0.5 else (0.0, fate.delay)
        return await self._deliver(there, ask, back)

    async def _deliver(self, there: float, ask: Ask, back: float = 0.0) -> Response:
        await self._clock.sleep(there)
        answer = await ask()
        await self._clock.sleep(back)
        return answer

    async def _fail(self, fate: Fate) -> NoReturn:
        await self._clock.sleep(fate.error_delay)
        raise ClientOSError("no answer")

    def _note_copy(self, verb: str, body: bytes) -> None:
        """Note the claim of a call that arrives twice. Its second copy may claim jobs of which the worker gets no answer."""
        for each in wire.VERBS[verb].decode_request(body)[0]:
            if isinstance(each, ClaimRequest):
                token = Token(each.claim, 0)
                self._history.add(
                    Event(time=self._now(), process=self._process.name, what="claim.copied", phase=Phase.LIFE, token=token)
                )


class CallThread:
    """The thread of a process in which its HTTP client works, on the loop of the world."""

    def __init__(self, thread: VirtualThread) -> None:
        self._thread = thread

    async def run(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a call there, and return its result."""
        return await self._thread.run(call())

    async def close(self) -> None:
        """Do nothing: the loop belongs to the world."""


class SimulatedClient(HttpClient):
    """The real client, whose session is simulated."""

    def __init__(self, server: str, chance: Randomness, calls: BrokerCalls, thread: CallThread) -> None:
        super().__init__((server,), None, chance)
        self._thread, self._calls = thread, calls  # type: ignore[assignment]

    def _session(self) -> Any:
        return self._calls


class SimulatedRemote(RemoteStore):
    """The real remote store, with a simulated client."""

    def __init__(self, client: HttpClient, server: str, chance: Randomness) -> None:
        super().__init__((server,), token=None, chance=chance)
        self._client = client
