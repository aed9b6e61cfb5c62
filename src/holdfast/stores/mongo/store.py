"""Jobs in MongoDB. What is rare is a verb of a book on a part of it, in one transaction; what is frequent is written by hand."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from holdfast._core.answers import Answer, BeatAnswer, Capabilities, Check, EnqueueAnswer, ExchangeAnswer
from holdfast._core.book.moment import Moment
from holdfast._core.book.verbs import BookVerbs
from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.identity import ProcessIdentity
from holdfast._core.job import NewJob, Token
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import BeatNote, ClaimKind, ClaimRequest, ProgressUpdate, QueueSettings
from holdfast._ports.clock import Clock, Randomness
from holdfast.databases.mongo.database import MongoDatabase, Session
from holdfast.databases.mongo.errors import Duplicate
from holdfast.stores.mongo import preparing, reading, schema
from holdfast.stores.mongo.claiming import Claiming
from holdfast.stores.mongo.documents import stamp_of
from holdfast.stores.mongo.enqueuing import documents_of
from holdfast.stores.mongo.leases import Leases
from holdfast.stores.mongo.loading import Loader
from holdfast.stores.mongo.names import Names
from holdfast.stores.mongo.part import Missing, PartBook
from holdfast.stores.mongo.reporting import report
from holdfast.stores.mongo.settling import is_plain, settle
from holdfast.stores.mongo.writing import Writer, batches

READS = frozenset(
    ("get", "held", "expired", "overdue", "workers", "worker_history", "limits", "outputs", "flow", "schedules", "ticks", "steps")
) | {"job_with_key"}

MOST_COPIES = 5
"""How often a write is sent that a unique index refuses."""
_BY_HAND: dict[str, Callable[..., Awaitable[Any]]] = {
    "list": reading.list_jobs,
    "counts": lambda loader, now, by=None: reading.count_jobs(loader, now, by),
    "waiting_tasks": lambda loader, now: reading.tasks_that_wait(loader),
    "due": reading.due_jobs,
    "next_due": reading.next_due,
    "worker_history": reading.worker_history,
}
READS |= {*_BY_HAND, "queues"}


class MongoStore(BookVerbs):
    """The store of a database whose members are a replica set. ``now``: the expression by which its commands know the time."""

    now: Any = "$$NOW"

    def __init__(self, url: str, *, schema: str = "holdfast", clock: Clock, chance: Randomness, process: ProcessIdentity) -> None:
        self.database = MongoDatabase(url, clock=clock, chance=chance, process=process)
        self.names = Names(schema)
        self.flow_changes = FlowChanges()
        self._leases, self._claiming = Leases(self.database, self.names), Claiming(self.database, self.names, chance)
        self._is_checked = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("mongodb", "server", prefetch=True)

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        return self.flow_changes.take()

    async def migrate(self) -> tuple[int, int]:
        found = await schema.migrate(self.database, self.names)
        self._is_checked = True
        return found

    async def check(self) -> tuple[Check, ...]:
        return ()

    async def close(self) -> None:
        await self.database.close()

    async def enqueue(self, call: UUID, jobs: Sequence[NewJob], *, under: tuple[UUID, Token] | None = None) -> EnqueueAnswer:
        await self._require_schema()
        is_plain = under is None and 0 < len(jobs) == len({each.id for each in jobs})
        if is_plain and all(each.unique_key is None for each in jobs):
            try:
                return await self.database.transaction(lambda session: self._insert(session, call, jobs))
            except Duplicate:
                pass  # a copy of the call, or of a job, is there
        answer: EnqueueAnswer = await self._ask("enqueue", (call, jobs), {"under": under})
        return answer

    async def _insert(self, session: Session, call: UUID, jobs: Sequence[NewJob]) -> EnqueueAnswer:
        now, settings = await self._begin(session)
        queues = {queue: msgspec.json.decode(text, type=QueueSettings) for queue, text in settings["queues"]}
        for some in batches(documents_of(call, jobs, now.wall, queues)):
            await self.database.write({"insert": self.names.jobs, "documents": some}, session=session)
        return EnqueueAnswer()

    async def exchange(self, transitions: Sequence[Transition], request: ClaimRequest | None = None) -> ExchangeAnswer:
        await self._require_schema()
        answers = await self._settle(transitions)
        if request is None:
            return ExchangeAnswer(answers)
        view = await self._claiming.look(self.now, request)
        has_limited = bool(view.limits)
        if has_limited and (request.kind is ClaimKind.LIMITED or request.ids is not None):
            found: ExchangeAnswer = await self._ask("exchange", ((), request), {})
            return structs.replace(found, answers=answers)
        if request.kind is ClaimKind.LIMITED:
            return ExchangeAnswer(answers, cursor=request.cursor)
        claims, cursor, is_whole = await self._claiming.claim(self.now, view, request)
        return ExchangeAnswer(answers, claims, cursor, is_whole, has_limited=has_limited)

    async def _settle(self, transitions: Sequence[Transition]) -> tuple[Answer, ...]:
        is_once = len({each.job for each in transitions}) == len(transitions)  # else the first of a job counts
        plain = [each for each in transitions if is_once and is_plain(each)]
        if plain and (await self.database.write(settle(self.names, self.now, plain)))["n"] == len(plain):
            settled = {each.job for each in plain}
            rest = [each for each in transitions if each.job not in settled]
        else:
            rest = [*transitions]
        if not rest:
            return (Answer.APPLIED,) * len(transitions)
        found: ExchangeAnswer = await self._ask("exchange", (rest,), {})
        judged = dict(zip(map(id, rest), found.answers, strict=True))
        return tuple(judged.get(id(each), Answer.APPLIED) for each in transitions)

    async def report(self, updates: Sequence[ProgressUpdate]) -> frozenset[UUID]:
        await self._require_schema()
        if (await self.database.write(report(self.names, self.now, updates)))["n"] == len(updates):
            return frozenset()
        lost: frozenset[UUID] = await self._ask("report", (updates,), {})
        return lost

    async def beat(self, leases: Sequence[UUID], *, draining: bool = False, notes: Sequence[BeatNote] = ()) -> BeatAnswer:
        await self._require_schema()
        return await self._leases.beat(self.now, leases, draining=draining, notes=notes)

    async def start_through(self, lease: UUID, number: int, voids: int) -> bool:
        await self._require_schema()
        return await self._leases.start_through(lease, number, voids)

    async def void(self, lease: UUID, voids: int) -> int | None:
        await self._require_schema()
        return await self._leases.void(lease, voids)

    async def _ask(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        await self._require_schema()
        if verb in READS:
            return await self.database.snapshot(lambda session: self._on_part(session, verb, arguments, keywords))
        book, answer = await self._write(verb, arguments, keywords)
        for change in book.flow_changes.take():
            self.flow_changes.add([change])
        return answer

    async def _write(self, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[PartBook, Any]:
        for left in range(MOST_COPIES, 0, -1):
            try:
                found: tuple[PartBook, Any] = await self.database.transaction(
                    lambda session: self._on_part(session, verb, arguments, keywords)
                )
            except Duplicate:  # a rival has committed after the snapshot: the next one sees it
                if left == 1:
                    raise
            else:
                return found
        raise AssertionError

    async def _on_part(self, session: Session, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        now, settings = await self._begin(session)
        book = PartBook(now.stamp << 10)
        loader = Loader(self.database, self.names, session, book)
        loader.settle(settings)
        prepared = await preparing.prepare(loader, now.wall, verb, arguments, keywords)
        if prepared:
            await loader.load(prepared)
        if verb in _BY_HAND:
            return await _BY_HAND[verb](loader, now.wall, *arguments, **keywords)
        if verb == "queues":
            return await reading.view_queues(loader, now.wall, settings)
        if verb == "exchange" and len(arguments) > 1 and arguments[1] is not None:
            book.content.numbers["claim"] = await self._reserve(arguments[1].room)
        answer = await self._call(book, loader, now, verb, arguments, keywords)
        if verb in READS:
            return answer
        writer = Writer(self.names, book, loader.documents, now.wall)
        if verb == "prune":
            worn = await loader.worn_beats(now.wall, *arguments, **keywords)
            writer.delete(self.names.beats, worn)
            answer = structs.replace(answer, beats=len(worn))
        preparing.touch(writer, verb, arguments, keywords)
        writer.add(book.changes())
        await writer.write(self.database, session)
        return book, answer

    async def _call(
        self, book: PartBook, loader: Loader, now: Moment, verb: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        start = book.savepoint()
        while True:
            try:
                return getattr(book, verb)(now, *arguments, **keywords)
            except Missing as missing:
                book.undo(start)
                await loader.load(missing.wanted)

    async def _begin(self, session: Session) -> tuple[Moment, dict[str, Any]]:
        """Return the time of the server and the settings, read by the first command of a session."""
        pipeline = [{"$match": {"_id": "settings"}}, {"$set": {"now": self.now}}]
        (found,) = await self.database.find(self.names.state, pipeline, session=session)
        at: datetime = found["now"]
        return Moment(at, stamp_of(at)), found

    async def _reserve(self, numbers: int) -> int:
        """Return the number before the first of as many claim numbers that no other claim gets."""
        reply = await self.database.write(
            {
                "findAndModify": self.names.state,
                "query": {"_id": "claims"},
                "update": {"$inc": {"number": numbers}},
                "new": True,
            }
        )
        return int(reply["value"]["number"]) - numbers

    async def _require_schema(self) -> None:
        if not self._is_checked:
            await schema.require_schema(self.database, self.names)
            self._is_checked = True
