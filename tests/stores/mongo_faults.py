"""A member of a replica set that fails at a chosen command: before, while or after it runs."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from holdfast.testing.servers import MongoServer
from tests.servers.lookalike import Document, Lookalike, Send

Hit = Callable[["FaultyMember", Document, Send], Document]

_OF_CLIENTS = frozenset(("hello", "ping", "endSessions", "isMaster", "ismaster"))
_WRITES = frozenset(("insert", "update", "delete", "findAndModify", "commitTransaction"))
POINT = "failCommand"


class Fault(Struct, frozen=True):
    """What happens to a command. ``writes``: to those only that wait for a majority. ``is_late``: to those outside transactions.

    A server that answers ends a transaction as it was asked to: ``answers`` leaves those commands alone.
    """

    name: str
    hit: Hit
    writes: bool = False
    is_late: bool = False
    answers: bool = False

    def applies(self, command: Mapping[str, Any]) -> bool:
        """Return whether it can happen to this command."""
        is_waiting = "writeConcern" in command and next(iter(command)) in _WRITES
        if self.answers and "abortTransaction" in command:
            return False
        return (is_waiting or not self.writes) and not (self.is_late and "autocommit" in command)


class FaultyMember:
    """A member behind a process that resembles it. ``commands``: those of clients since ``watch``."""

    def __init__(self, member: MongoServer) -> None:
        self.member, self.late = member, list[Document]()
        self._fault: Fault | None = None
        self._commands = list[Document]()
        self._at, self._most, self._hits = 0, 0, 0
        self._lock = threading.Lock()
        self.front = Lookalike(member, self._behave)

    @contextmanager
    def failing(self, fault: Fault | None, at: int = 0, times: int = 1) -> Iterator[Sequence[Document]]:
        """Let this command from now on fail, and those after it if it is to fail more often; yields the commands that were sent."""
        with self._lock:
            self._commands = commands = list[Document]()
            self._fault, self._at, self._most, self._hits = fault, at, times, 0
        try:
            yield commands
        finally:
            with self._lock:
                self._fault = None

    @property
    def hits(self) -> int:
        """The number of commands that failed."""
        return self._hits

    async def deliver_late(self) -> None:
        """Let those commands arrive whose client has gone."""
        for command in self.late:
            await asyncio.to_thread(self.front.deliver, command)
        self.late.clear()

    def _behave(self, command: Document, send: Send) -> Document:
        if next(iter(command)) in _OF_CLIENTS:
            return send(command)
        with self._lock:
            place = len(self._commands)
            self._commands.append(command)
            fault = self._fault
            is_hit = fault is not None and place >= self._at and self._hits < self._most and fault.applies(command)
            self._hits += is_hit
        return send(command) if fault is None or not is_hit else fault.hit(self, command, send)


def _cut_before(at: FaultyMember, command: Document, send: Send) -> Document:
    raise ConnectionError


def _cut_after(at: FaultyMember, command: Document, send: Send) -> Document:
    send(command)
    raise ConnectionError


def _delay(at: FaultyMember, command: Document, send: Send) -> Document:
    at.late.append(command)
    raise ConnectionError


def _fail(data: Mapping[str, Any]) -> Hit:
    def hit(at: FaultyMember, command: Document, send: Send) -> Document:
        name = next(iter(command))
        send({"configureFailPoint": POINT, "mode": {"times": 1}, "data": {"failCommands": [name], **data}, "$db": "admin"})
        try:
            return send(command)
        finally:
            send({"configureFailPoint": POINT, "mode": "off", "$db": "admin"})

    return hit


def _answer(reply: Document) -> Hit:
    def hit(at: FaultyMember, command: Document, send: Send) -> Document:
        send(command)
        return reply

    return hit


def _error(code: int) -> Fault:
    return Fault(f"error {code}", _fail({"errorCode": code}), answers=True)


def _labelled(code: int, label: str) -> Fault:
    return Fault(f"{label} {code}", _fail({"errorCode": code, "errorLabels": [label]}), answers=True)


def _unconfirmed(code: int, **more: Any) -> Fault:
    concern = {"code": code, "errmsg": "not confirmed", **more}
    return Fault(f"unconfirmed {code}", _fail({"writeConcernError": concern}), writes=True, answers=True)


DEPOSED: Document = {"ok": 0.0, "code": 91, "codeName": "ShutdownInProgress", "errmsg": "deposed while it ran"}

LOST_REQUEST, LOST_ANSWER = Fault("lost request", _cut_before), Fault("lost answer", _cut_after)
LATE = Fault("late", _delay, is_late=True)
INTERRUPTED = _error(11602)
FAULTS: Sequence[Fault] = (
    LOST_REQUEST,
    LOST_ANSWER,
    LATE,
    INTERRUPTED,
    *map(_error, (91, 189, 64, 50)),
    _labelled(112, "TransientTransactionError"),
    _labelled(50, "UnknownTransactionCommitResult"),
    _unconfirmed(64, errInfo={"wtimeout": True}),
    _unconfirmed(91),
    Fault("91 after it ran", _answer(DEPOSED)),
)
