"""Runs verbs of a book on parts of it: a read in one snapshot, a write in one transaction."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, structs

from holdfast._core.answers import Answer, EnqueueAnswer, ExchangeAnswer
from holdfast._core.audit import AUDIT_RETENTION
from holdfast._core.book.moment import Moment
from holdfast._core.flow_changes import FlowChange
from holdfast._core.lifecycle import Precondition, Transition
from holdfast._core.requests import ClaimRequest
from holdfast._core.steps import SignalTaken
from holdfast.databases.mongo.caller import CallerDatabase
from holdfast.databases.mongo.database import Document, MongoDatabase, Session
from holdfast.databases.mongo.errors import Duplicate
from holdfast.stores.mongo import preparing, reading
from holdfast.stores.mongo.claim_numbers import reserve
from holdfast.stores.mongo.documents import stamp_of
from holdfast.stores.mongo.loading import Loader
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.part import Missing, PartBook
from holdfast.stores.mongo.schema import missing
from holdfast.stores.mongo.terms import MomentInTerm, Terms
from holdfast.stores.mongo.writing import Writer

_JUDGES = frozenset(("open_lease", "expired", "end_lease", "workers", "overdue"))
MOST_COPIES = 5
"""How often a write is sent that a unique index refuses."""

_BY_HAND: dict[str, Callable[..., Awaitable[Any]]] = {
    "list": reading.list_jobs,
    "errors": reading.group_errors,
    "counts": reading.count_jobs,
    "queues": reading.view_queues,
    "waiting_tasks": lambda loader, now: reading.tasks_that_wait(loader),
    "due": reading.due_jobs,
    "next_due": reading.next_due,
    "worker_history": reading.worker_history,
    "audits": reading.list_audits,
}
READS = frozenset(
    (*_BY_HAND, "get", "held", "expired", "overdue", "workers", "limits", "outputs", "flow", "schedules", "ticks", "steps")
) | {"job_with_key"}


class Written(Struct, frozen=True):
    """What a verb has answered, and led to. ``is_empty``: it has written nothing."""

    answer: Any
    flow_changes: tuple[FlowChange, ...]
    is_empty: bool


class PartsWithin:
    """Verbs of a book in the transaction of a session. ``now``: returns the expression by which the server knows the time."""

    def __init__(self, database: MongoDatabase | CallerDatabase, names: Names, terms: Terms, now: Callable[[], Any]) -> None:
        self._database, self._names, self._terms, self._now = database, names, terms, now

    async def write_within(self, session: Any, verb: str, arguments: tuple[Any, ...]) -> Any:
        """Write in a transaction of the caller, and return the answer; conflicts are errors of the caller's driver."""
        return (await self._write(session, verb, arguments, {})).answer

    async def begin(self, session: Session) -> tuple[datetime, Document]:
        """Return the time of the server and the settings, read by the first command of a session."""
        pipeline: list[Document] = [{"$match": {"_id": "settings"}}, {"$set": {"now": self._now()}}]
        found = await self._database.find(self._names.state, pipeline, session=session)
        if not found:
            raise missing(self._database.location.public, self._names.state, "settings")
        at: datetime = found[0]["now"]
        return at, found[0]

    async def _write(self, session: Session, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Written:
        at, book, loader = await self._open(session)
        await self._learn_term(verb, arguments)
        await loader.load(await preparing.prepare(loader, at, verb, arguments, keywords))
        if (most := preparing.most_claims(verb, arguments)) > 0:
            book.content.numbers["claim"] = await self._reserve(most)
        answer = await self._call(book, loader, self._moment(at, book), verb, arguments, keywords)
        writer = Writer(self._names, book, loader.documents, at, self._database.term)
        if verb == "prune":
            worn = await loader.worn_beats(at, *arguments, **keywords)
            writer.delete(self._names.beats, worn)
            answer = structs.replace(answer, beats=len(worn))
            end = at - timedelta(seconds=AUDIT_RETENTION)
            writer.delete(self._names.audits, await loader.worn_audits(end, *arguments, **keywords))
        preparing.touch(writer, book, verb, arguments, keywords)
        writer.add(book.changes())
        await writer.write(self._database, session)
        return Written(answer, book.flow_changes.take(), writer.is_empty)

    async def _open(self, session: Session) -> tuple[datetime, PartBook, Loader]:
        at, settings = await self.begin(session)
        book = PartBook()
        loader = Loader(self._database, self._names, session, book)
        loader.settle(settings)
        return at, book, loader

    def _moment(self, at: datetime, book: PartBook) -> Moment:
        self._terms.learn(self._database.term)
        return MomentInTerm(at, stamp_of(at), self._terms, book.terms)

    async def _call(
        self, book: PartBook, loader: Loader, now: Moment, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        start = book.savepoint()
        while True:
            try:
                return getattr(book, verb)(now, *arguments, **keywords)
            except Missing as unread:
                wanted = book.alike(unread.wanted)
                book.undo(start)
                await loader.load(wanted)

    async def _learn_term(self, verb: str, arguments: tuple[Any, ...]) -> None:
        """Do nothing: callers judge no leases in their transactions."""

    async def _reserve(self, numbers: int) -> int:
        raise AssertionError(f"{numbers} claims in the transaction of a caller")


class Parts(PartsWithin):
    """The verbs of a book, each in a separate session."""

    def __init__(self, database: MongoDatabase, names: Names, terms: Terms, now: Callable[[], Any]) -> None:
        super().__init__(database, names, terms, now)
        self._own = database

    async def read(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return the answer of a verb that writes nothing."""
        return await self._own.snapshot(lambda session: self._read(session, verb, arguments, keywords))

    async def write(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Written:
        """Commit what a verb writes, and return its answer."""
        for left in range(MOST_COPIES, 0, -1):
            try:
                return await self._own.transaction(lambda session: self._write(session, verb, arguments, keywords))
            except Duplicate:  # a rival has committed after the snapshot: the next one sees it
                if left == 1:
                    raise
        raise AssertionError

    async def _read(self, session: Session, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        at, book, loader = await self._open(session)
        await self._learn_term(verb, arguments)
        await loader.load(await preparing.prepare(loader, at, verb, arguments, keywords))
        if verb in _BY_HAND:
            return await _BY_HAND[verb](loader, at, *arguments, **keywords)
        return await self._call(book, loader, self._moment(at, book), verb, arguments, keywords)

    async def _learn_term(self, verb: str, arguments: tuple[Any, ...]) -> None:
        """Ask for the term after the server's time was read: reads show no term, and a new primary has another clock.

        A later term than that of the time is harmless: then leases are watched.
        """
        if verb in _JUDGES or (verb == "exchange" and _judges_times(*arguments)):
            await self._own.greet()

    async def _reserve(self, numbers: int) -> int:
        return await reserve(self._own, self._names, numbers)


def _judges_times(moves: Sequence[Transition], request: ClaimRequest | None = None) -> bool:
    return request is not None or any(each.precondition is Precondition.OVERDUE for each in moves)


def is_negative(answer: Any) -> bool:
    """Return whether an answer is "no": that a job was lost, or is unknown. A deposed primary may give it wrongly."""
    match answer:
        case ExchangeAnswer():
            return any(each is not Answer.APPLIED for each in answer.answers)
        case EnqueueAnswer() | SignalTaken():
            return answer.is_lost
        case None | False:
            return True
        case frozenset():
            return bool(answer)
        case _:
            return False
