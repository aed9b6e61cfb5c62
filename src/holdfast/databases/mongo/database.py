"""One MongoDB database, reached from any number of event loops. Each command states its concerns; the URL decides none of them."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import pymongo
from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp
from pymongo import AsyncMongoClient, MongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from holdfast._core.identity import ProcessIdentity
from holdfast._core.mongo_url import MongoUrl, problems_of_mongo_url
from holdfast._forks import Forked, Lock, register
from holdfast._ports.clock import Clock, Randomness
from holdfast._system.clock import loop_sleep
from holdfast.databases.mongo import member
from holdfast.databases.mongo.errors import TOO_LARGE, first_line, raise_for_reply, statement_error
from holdfast.databases.mongo.left_open import LeftOpen
from holdfast.errors import ConfigurationError, HoldfastError, StoreBusy, StoreUnavailable

Document = dict[str, Any]
Client = AsyncMongoClient[Document]
Session = AsyncClientSession
Answer = TypeVar("Answer")

APPLICATION = "holdfast"
"""The name of this application in the lists of a server."""
_OF_CALLERS = " job.transaction()"
VERB_LIMIT = 10.0
"""Seconds for the commands of one verb."""
BEAT_LIMIT = 5.0
SEARCH_LIMIT = 75.0
CONFLICT_LIMIT = 5.0
"""Seconds for which a transaction is begun again after conflicts with others."""

TURNS: Final = 5
"""Turns of an event loop in which connections that the driver has ended are closed, too."""

MAJORITY: Final = {"w": "majority", "j": True}
CODEC: Final[CodecOptions[Document]] = CodecOptions(tz_aware=True, uuid_representation=4)
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1
_TRANSIENT, _UNKNOWN = "TransientTransactionError", "UnknownTransactionCommitResult"


class _Link:
    """A client, and the newest operation of which its replies have shown the time: what is believed must be read at or after it.

    A client passes the time on with what it read. Another one may not: a primary refuses a time that lies in its future.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._databases = dict[str, AsyncDatabase[Document]]()
        self.time: Timestamp | None = None

    def advance(self, time: Timestamp | None) -> None:
        if time is not None and (self.time is None or time > self.time):
            self.time = time

    def database(self, name: str) -> AsyncDatabase[Document]:
        """Return a database of the client. It is made once: to make it takes a tenth of the time of a command."""
        found = self._databases.get(name)
        if found is None:
            found = self._databases[name] = self.client[name]
        return found

    def session(self) -> Session:
        """Return a session whose reads come after all that this client has read and written."""
        session = self.client.start_session(causal_consistency=True)
        if self.time is not None:
            session.advance_operation_time(self.time)
        return session


class _Clients:
    """The clients of one event loop. Beats have a separate one: they must not wait behind other commands.

    The transactions of your code have another, and another name: only those that are abandoned are ended.
    """

    def __init__(self, connect: Callable[[int, str], Client]) -> None:
        self.shared, self.beats, self.callers = _Link(connect(8, "")), _Link(connect(2, "")), _Link(connect(8, _OF_CALLERS))
        self.ending = _close_at_the_end(self.shared.client, self.beats.client, self.callers.client)
        try:
            self.ending.__anext__().send(None)
        except StopIteration:
            pass  # the generator is at its `yield` now, and waits for the end of the loop

    def link(self, *, for_beat: bool) -> _Link:
        return self.beats if for_beat else self.shared


async def _close_at_the_end(*clients: Client) -> AsyncGenerator[None]:
    """Close the clients at the end of the event loop, which closes the asynchronous generators begun in it: no caller has to do it."""
    try:
        yield
    finally:
        for client in clients:
            await client.close()
        for _ in range(TURNS):
            await loop_sleep(0)


class MongoDatabase(Forked):
    """A database. ``term``: the newest term of a primary that a reply has shown, -1 before the first."""

    def __init__(self, url: str, *, clock: Clock, chance: Randomness, process: ProcessIdentity) -> None:
        if problems := problems_of_mongo_url(url):
            raise ConfigurationError(problems)
        self.location = MongoUrl.of(url)
        self.term = -1
        self._clock, self._chance, self._process = clock, chance, process
        self._clients: dict[asyncio.AbstractEventLoop, _Clients] = {}
        self._of_threads: MongoClient[Document] | None = None
        self._of_parent: list[object] = []
        self.left_open = LeftOpen()
        self._lock = threading.Lock()
        register(self)

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        with self._lock:
            clients = self._clients.pop(asyncio.get_running_loop(), None)
            of_threads, self._of_threads = self._of_threads, None
        if clients is not None:
            await clients.ending.aclose()
        if of_threads is not None:
            await asyncio.to_thread(of_threads.close)

    async def write(self, command: Document, *, session: Session | None = None, for_beat: bool = False) -> Document:
        """Send a command that writes, and return its reply: a majority has the write in its journal then.

        ``Duplicate``: a unique index refuses it. In a transaction, the commit waits for the majority.
        """
        if session is None and not for_beat:
            await self.end_left_open()  # this write would wait for its locks
        written = command if session is not None else {**command, "writeConcern": MAJORITY}
        reply = await self.command(written, session=session, for_beat=for_beat)
        raise_for_reply(self.location.public, reply)
        return reply

    async def command(
        self,
        command: Document,
        *,
        session: Session | None = None,
        for_beat: bool = False,
        limit: float | None = None,
        on: str | None = None,
    ) -> Document:
        """Send a command and return its reply, in which the caller looks for failures of its parts. ``on``: another database."""
        link = self._here().link(for_beat=for_beat)
        try:
            with pymongo.timeout(limit or (BEAT_LIMIT if for_beat else VERB_LIMIT)):
                database = link.database(on or self.location.database)
                reply: Document = await obey(
                    database.command(command, session=session, read_preference=ReadPreference.PRIMARY, codec_options=CODEC)
                )
        except PyMongoError as error:
            if session is not None and error.has_error_label(_TRANSIENT):
                raise
            raise statement_error(self.location.public, error) from error
        self._learn(link, reply)
        return reply

    def collection(self, name: str, concern: str | None = "majority", *, for_beat: bool = False) -> AsyncCollection[Document]:
        """Return a collection for reads. ``concern``: ``None`` inside sessions that have theirs."""
        database = self._here().link(for_beat=for_beat).database(self.location.database)
        return database.get_collection(
            name,
            codec_options=CODEC,
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern(concern) if concern else None,
            write_concern=WriteConcern("majority", j=True),
        )

    async def find(
        self,
        name: str,
        which: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        session: Session | None = None,
        concern: str = "majority",
        for_beat: bool = False,
        **options: Any,
    ) -> list[Document]:
        """Return the documents of a filter or a pipeline; outside a session as a majority has them, after all that this client wrote."""
        try:
            with pymongo.timeout(BEAT_LIMIT if for_beat else VERB_LIMIT):
                if session is None and concern == "majority":
                    async with self._here().link(for_beat=for_beat).session() as causal:
                        return await obey(_read(self.collection(name, concern, for_beat=for_beat), which, causal, options))
                return await obey(_read(self.collection(name, None if session else concern), which, session, options))
        except PyMongoError as error:
            if session is not None and error.has_error_label(_TRANSIENT):
                raise
            raise statement_error(self.location.public, error) from error

    async def indexes(self, name: str) -> list[Document]:
        """Return the indexes of a collection; none if it does not exist."""
        try:
            with pymongo.timeout(VERB_LIMIT):
                return [{**each} for each in await (await self.collection(name, None).list_indexes()).to_list()]
        except PyMongoError as error:
            raise statement_error(self.location.public, error) from error

    async def snapshot(self, act: Callable[[Session], Awaitable[Answer]], *, limit: float = SEARCH_LIMIT) -> Answer:
        """Return what the reads of ``act`` return, all of them at one time."""
        try:
            with pymongo.timeout(limit):
                async with self.client().start_session(snapshot=True, causal_consistency=False) as session:
                    return await act(session)
        except PyMongoError as error:
            raise statement_error(self.location.public, error) from error

    async def transaction(self, act: Callable[[Session], Awaitable[Answer]]) -> Answer:
        """Return what ``act`` returns once its writes have committed; it is begun again after conflicts.

        ``StoreBusy``: others were in the way for 5 s, and nothing was written. ``StoreUnavailable``: it is unknown whether it committed.
        """
        waited, pause = 0.0, _SHORTEST_PAUSE
        while True:
            try:
                return await self._once(act)
            except PyMongoError as error:
                if not error.has_error_label(_TRANSIENT):
                    raise statement_error(self.location.public, error) from error
                if waited >= CONFLICT_LIMIT:
                    raise StoreBusy(f"{self.location.public}: {first_line(error)}: others write the same jobs") from error
            seconds = pause * (1.0 + self._chance.jitter()) / 2
            await loop_sleep(seconds)
            waited, pause = waited + seconds + 0.001, min(pause * 2, _LONGEST_PAUSE)

    async def _once(self, act: Callable[[Session], Awaitable[Answer]]) -> Answer:
        with pymongo.timeout(VERB_LIMIT):
            await self.end_left_open()
            link = self._here().shared
            async with self.left_open.lend(link.session()) as session:
                await session.start_transaction(**self.in_snapshot())
                is_committing = False
                try:
                    answer = await act(session)
                    is_committing = True
                    await self._commit(session)
                except BaseException as error:
                    await self._give_up(session, error, is_committing=is_committing)
                    raise
                link.advance(session.operation_time)
                return answer

    def client(self) -> Client:
        """Return the client of the running event loop."""
        return self._here().shared.client

    def blocking_client(self) -> MongoClient[Document]:
        """Return the client of threads."""
        with self._lock:
            if self._of_threads is None:
                self._of_threads = MongoClient(self.location.url, **self._options(8, _OF_CALLERS))
            return self._of_threads

    def caller_session(self) -> Session:
        """Return a session for a transaction of the caller's code; ``session.client`` is the client of these transactions."""
        return self._here().callers.session()

    @staticmethod
    def in_snapshot() -> dict[str, Any]:
        """Return the concerns of a transaction."""
        return {
            "read_concern": ReadConcern("snapshot"),
            "write_concern": WriteConcern("majority", j=True),
            "read_preference": ReadPreference.PRIMARY,
        }

    async def _give_up(self, session: Session, error: BaseException, *, is_committing: bool) -> None:
        """Abort a transaction. After a commit the driver does not; then, or if the server may not receive it, it may be left open."""
        cause = error.__cause__ if isinstance(error, HoldfastError) else error
        is_aborted = isinstance(cause, OperationFailure) and cause.has_error_label(_TRANSIENT) and not is_committing
        if isinstance(cause, PyMongoError | asyncio.CancelledError) and not is_aborted:
            self.left_open.add(session)
        try:
            await asyncio.shield(session.abort_transaction())
        except PyMongoError:
            pass  # the server ends it

    async def end_left_open(self) -> None:
        """End transactions that were given up without an answer."""
        await self.left_open.end(lambda command: self.command(command, on="admin"))

    def end_left_open_now(self) -> None:
        """End them from a thread."""
        try:
            with pymongo.timeout(VERB_LIMIT):
                self.left_open.end_now(self.blocking_client().admin.command)
        except PyMongoError as error:
            raise statement_error(self.location.public, error) from error

    async def _commit(self, session: Session) -> None:
        for left in (2, 1, 0):
            try:
                await obey(session.commit_transaction())
            except PyMongoError as error:
                if error.has_error_label(_TRANSIENT) or getattr(error, "code", None) == TOO_LARGE:
                    raise
                if not error.has_error_label(_UNKNOWN) or not left:
                    raise StoreUnavailable(f"{self.location.public}: the commit was not answered: {first_line(error)}") from error
            else:
                return

    async def greet(self) -> Document:
        """Return what the primary reports of itself, and learn its term from its last write."""
        reply = await self.command({"hello": 1})
        self._learn(self._here().shared, {"opTime": reply.get("lastWrite", {}).get("opTime")})
        return reply

    async def greet_member(self, host: str) -> Document:
        """Return what this very member reports of itself, also if it belongs to another replica set, or to none."""
        return await asyncio.to_thread(member.greet, self.location.of_member(host), host)

    def _learn(self, link: _Link, reply: Mapping[str, Any]) -> None:
        link.advance(reply.get("operationTime"))
        written = reply.get("opTime")
        if isinstance(written, dict):  # in a transaction it is a time alone
            self.term = max(self.term, int(written["t"]))

    def _here(self) -> _Clients:
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            with self._lock:
                for closed in [each for each in [*self._clients] if each.is_closed()]:
                    self._clients.pop(closed, None)
                found = self._clients[loop] = _Clients(self._connect)
        return found

    def _connect(self, most: int, purpose: str) -> Client:
        # Each command has its limit, and a cursor that waits for hints has none.
        return AsyncMongoClient(self.location.url, **self._options(most, purpose), socketTimeoutMS=0, timeoutMS=None)

    def _options(self, most: int, purpose: str) -> dict[str, Any]:
        return {
            "appname": f"{APPLICATION} {self._process.host}-{self._process.pid}{purpose}",
            "maxPoolSize": most,
            "connectTimeoutMS": 2000,
            "heartbeatFrequencyMS": 2000,
            "serverSelectionTimeoutMS": 4000,
            "uuidRepresentation": "standard",
            "tz_aware": True,
            "retryWrites": True,
            "w": "majority",
            "journal": True,
        }

    # A fork copies sockets that the parent uses: the child forgets its copies without closing them.

    def _fork_locks(self) -> Sequence[Lock]:
        return (self._lock,)

    def after_fork_in_child(self) -> None:
        self._of_parent += [self._clients, self._of_threads]
        self._clients, self._of_threads, self._lock = {}, None, threading.Lock()


async def obey(act: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what a call of the driver returns; raise ``CancelledError`` if the task was cancelled, and the driver took no notice."""
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        answer = await act
    except Exception:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from None
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return answer


async def _read(
    collection: AsyncCollection[Document], which: Any, session: Session | None, options: Mapping[str, Any]
) -> list[Document]:
    if isinstance(which, Mapping):
        return await collection.find(which, session=session, batch_size=1000, **options).to_list()
    return await (await collection.aggregate(which, session=session, batchSize=1000, **options)).to_list()
