"""The remote store: each verb is one request to a broker, which calls the same verb of its store.

The verbs are generated from the wire, which is generated from the store port.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from holdfast._core.answers import Capabilities
from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.release import VERSION
from holdfast._ports import wire
from holdfast._ports.clock import Randomness
from holdfast._ports.leading import MISDIRECTED, VERSION_HEADER, Refused
from holdfast._ports.wire_errors import decode_error
from holdfast.databases.http.client import HttpAnswer, HttpClient
from holdfast.errors import HoldfastError, StoreUnavailable, Unsupported

_OK, _OVERLOADED = 200, 503
Version = tuple[int, int]
"""The epoch and the version of a store whose brokers elect one of them."""


class RemoteStore:
    """The connections behind the verbs of a remote store."""

    def __init__(self, servers: Sequence[str], *, token: str | None, chance: Randomness, certificate: str | None = None) -> None:
        self._servers = ", ".join(servers)
        self._client = HttpClient(servers, token, chance, certificate=certificate)
        self._flow_changes = FlowChanges()
        self._newest: Version = (0, 0)

    @property
    def capabilities(self) -> Capabilities:
        """Constant, because it is asked before anything is connected. The broker's machine judges leases, so no clock is shared."""
        return Capabilities("broker", "none")

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self._flow_changes.take()

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, verb: wire.Verb, request: dict[str, Any]) -> Any:
        body, is_repeatable = verb.encode_request(request), verb.is_repeatable(request)
        newest = self._newest
        answer = await self._client.post(wire.PATH + verb.name, body, wire.CONTENT_TYPE, is_repeatable=is_repeatable)
        # an old connection may lead to a broker that has been deposed; answers to calls at once come in any order
        if (found := _version_of(answer)) is not None:
            if found < newest:
                raise StoreUnavailable(f"{self._servers}: the answer is older than one before the call: another broker leads now")
            self._newest = max(self._newest, found)
        if answer.status != _OK or wire.HEADER.lower() not in answer.headers:
            raise self._error_of(answer)
        try:
            value, flows = verb.decode_answer(answer.body)
        except msgspec.MsgspecError as error:
            raise StoreUnavailable(f"the answer of the broker at {self._servers} cannot be read: {error}") from error
        self._flow_changes.add(flows)
        return value

    def _error_of(self, answer: HttpAnswer) -> HoldfastError:
        spoken = answer.headers.get(wire.HEADER.lower())
        if spoken is None and answer.status == _OVERLOADED:
            return StoreUnavailable(f"{self._servers} is overloaded, or a proxy before it finds no broker")
        if spoken is None:
            return StoreUnavailable(
                f"{self._servers} answers {answer.status}, and is no broker of Holdfast: check the URL, and any proxy before it"
            )
        if spoken != str(wire.VERSION):
            return Unsupported(
                f"the broker at {self._servers} speaks version {spoken} of the wire, this release ({VERSION}) "
                f"version {wire.VERSION}: upgrade brokers first, then workers"
            )
        try:
            error = decode_error(answer.body)
        except msgspec.MsgspecError:
            return StoreUnavailable(f"the broker at {self._servers} answers {answer.status}")
        return Refused(str(error)) if answer.status in (_OVERLOADED, MISDIRECTED) else error


def _version_of(answer: HttpAnswer) -> Version | None:
    epoch, _, version = answer.headers.get(VERSION_HEADER.lower(), "").partition(".")
    return (int(epoch), int(version)) if epoch.isdecimal() and version.isdecimal() else None


def _ask(verb: wire.Verb) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def ask(self: RemoteStore, /, *arguments: Any, **keywords: Any) -> Any:
        return await self._ask(verb, verb.bind(*arguments, **keywords))

    ask.__name__, ask.__qualname__ = verb.name, f"RemoteStore.{verb.name}"
    return ask


for _verb in wire.VERBS.values():
    setattr(RemoteStore, _verb.name, _ask(_verb))
