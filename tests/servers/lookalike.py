"""Servers that resemble MongoDB: each command passes through a function of the test, which may change it, its reply, or answer itself."""

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import bson

from holdfast.testing.servers import MongoServer

Document = dict[str, Any]
Send = Callable[[Document], Document]
Behaviour = Callable[[Document, Send], Document]
"""Returns the reply to a command. ``Send`` passes a command to the real server, and returns its reply."""

_HEADER, _MESSAGE = struct.Struct("<iiii"), 2013


class Lookalike:
    """In front of a real server, in separate threads, so that tests may block. ``commands``: those that clients have sent."""

    def __init__(self, server: MongoServer, behave: Behaviour) -> None:
        self.behave, self.commands = behave, list[Document]()
        self._server = server.address
        self._doors = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._visit, bind_and_activate=True)
        self._doors.daemon_threads, self._doors.block_on_close = True, False
        self._thread = threading.Thread(target=self._doors.serve_forever, args=(0.02,), name="lookalike", daemon=True)

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self._doors.server_address[1]}"

    def url(self, database: str) -> str:
        """Return the address of a database. A client does not look for the other members of its set."""
        return f"mongodb://{self.address}/{database}?directConnection=true&serverMonitoringMode=poll"

    def deliver(self, command: Document) -> Document:
        """Pass a command to the real server now, as a network does that was slow; return the reply."""
        host, _, port = self._server.partition(":")
        with socket.create_connection((host, int(port))) as server:
            return _pass_on(server, command)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._doors.shutdown()
        self._doors.server_close()
        self._thread.join()

    def _visit(self, client: socket.socket, address: object, doors: object) -> None:
        host, _, port = self._server.partition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as server:
            while (head := _read(client, _HEADER.size)) is not None:
                size, request, _, kind = _HEADER.unpack(head)
                body = _read(client, size - _HEADER.size) or b""
                if kind != _MESSAGE:  # the greeting of a new connection
                    server.sendall(head + body)
                    client.sendall(_raw_reply(server))
                    continue
                command = _parsed(body)
                self.commands.append(command)
                reply = self.behave(command, lambda asked: _pass_on(server, asked))
                client.sendall(_packed(reply, request))


def _pass_on(server: socket.socket, command: Document) -> Document:
    server.sendall(_packed(command, 0))
    return _parsed(_raw_reply(server)[_HEADER.size :])


def _raw_reply(server: socket.socket) -> bytes:
    head = _read(server, _HEADER.size)
    if head is None:
        raise ConnectionError
    return head + (_read(server, _HEADER.unpack(head)[0] - _HEADER.size) or b"")


def _read(link: socket.socket, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        piece = link.recv(size - len(found))
        if not piece:
            return None
        found += piece
    return found


def _parsed(body: bytes) -> Document:
    """Return the document of a message, with its sequences of documents as lists."""
    at, command, lists = 4, dict[str, Any](), dict[str, Any]()
    while at < len(body):
        kind, size = body[at], struct.unpack_from("<i", body, at + 1)[0]
        part = body[at + 1 : at + 1 + size]
        if kind == 0:
            command = bson.decode(part)
        else:
            name, _, documents = part[4:].partition(b"\0")
            lists[name.decode()] = bson.decode_all(documents)
        at += 1 + size
    return {**command, **lists}


def _packed(document: Document, answers: int) -> bytes:
    body = b"\0\0\0\0\0" + bson.encode(document)
    return _HEADER.pack(_HEADER.size + len(body), 1, answers, _MESSAGE) + body
