"""A user's own session: of pymongo, synchronous or asynchronous, or of Motor. Awaitable results are awaited.

So one piece of code runs in all of them: with a synchronous session no coroutine of this module ever waits, and ``run_now`` runs
it.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from bson import Int64
from pymongo import MongoClient
from pymongo import errors as driver
from pymongo.uri_parser import parse_uri

from holdfast._core.mongo_url import MongoUrl
from holdfast._core.own_connection import require_none_open
from holdfast.databases.mongo.database import CODEC, MAJORITY, Document
from holdfast.databases.mongo.errors import DUPLICATE
from holdfast.errors import Unsupported


class CallerDatabase:
    """The database of the jobs, as a client of the caller reaches it. ``session``: in it all commands are part of a transaction."""

    term = -1

    def __init__(self, client: Any, location: MongoUrl, session: Any = None) -> None:
        self._client, self._session, self.location = client, session, location

    @classmethod
    def of(cls, session: Any, location: MongoUrl) -> "CallerDatabase":
        """Return the database in a session. ``Unsupported``: it is not a session in a transaction on the servers of the jobs."""
        _require_session(session)
        if not session.in_transaction:
            raise Unsupported("within: the session has no transaction: use `with session.start_transaction():` around the call")
        _require_servers(session, location)
        return cls(session.client, location, session)

    def outside(self) -> "CallerDatabase":
        """Return the database without the session."""
        return CallerDatabase(self._client, self.location)

    async def find(self, name: str, which: Any, *, session: Any = None, **options: Any) -> list[Document]:
        """Return the documents of a filter or a pipeline."""
        del session  # there is one
        if isinstance(which, Mapping):
            command: Document = {"find": name, "filter": which, "batchSize": 1000, **options}
        else:
            command = {"aggregate": name, "pipeline": [*which], "cursor": {"batchSize": 1000}}
        cursor = (await self._send(command))["cursor"]
        found = [*cursor["firstBatch"]]
        while cursor["id"]:
            cursor = (await self._send({"getMore": Int64(cursor["id"]), "collection": name}))["cursor"]
            found += cursor["nextBatch"]
        return found

    async def write(self, command: Document, *, session: Any = None) -> Document:
        """Send a command that writes. Its failures are errors of the driver."""
        del session
        reply = await self._send(command if self._session is not None else {**command, "writeConcern": MAJORITY})
        for failure in reply.get("writeErrors", ()):
            kind = driver.DuplicateKeyError if failure.get("code") == DUPLICATE else driver.WriteError
            raise kind(failure.get("errmsg", ""), failure.get("code"), failure)
        if concern := reply.get("writeConcernError"):
            raise driver.WriteConcernError(concern.get("errmsg", ""), concern.get("code"), concern)
        return reply

    async def _send(self, command: Document) -> Document:
        sent = self._client[self.location.database].command(command, session=self._session, codec_options=CODEC)
        reply: Document = await sent if inspect.isawaitable(sent) else sent
        return reply


def is_awaited(session: Any) -> bool:
    """Return whether the methods of a session are awaited."""
    return not isinstance(session.client, MongoClient)


def require_idle(session: Any, location: MongoUrl) -> None:
    """Raise ``Unsupported`` unless it is a session on the servers of the jobs, without a transaction."""
    _require_session(session)
    require_none_open(is_open=bool(session.in_transaction))
    _require_servers(session, location)


def _require_session(session: Any) -> None:
    if not hasattr(session, "in_transaction") or not hasattr(session, "client"):
        kind = f"{type(session).__module__}.{type(session).__qualname__}"
        raise Unsupported(f"the mongodb store needs a session of pymongo or Motor for within=, not {kind}")


def _require_servers(session: Any, location: MongoUrl) -> None:
    there = {(str(host), int(port)) for host, port in session.client.nodes}
    ours = {(host, port) for host, port in parse_uri(location.url)["nodelist"]}
    if there and ours.isdisjoint(there):
        raise Unsupported(
            f"the jobs are in {location.public}, and this session is of another server: documents and jobs commit together only in "
            "one replica set"
        )
