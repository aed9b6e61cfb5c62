"""The loop that makes one write of what many callers ask at once, and learns from reads what became of it."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Raw, Struct, json, structs

from holdfast._core.answers import BeatAnswer
from holdfast._core.book.book import Book
from holdfast._core.book.naming import READING
from holdfast._core.book.tables import decode, encode, encode_sayable
from holdfast._core.flow_changes import FlowChange
from holdfast._ports.bucket import Bucket, BucketUnavailable
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.leading import Misdirected
from holdfast.errors import StoreRefused, StoreUnavailable
from holdfast.stores.objects.archives import Jobs, take_back
from holdfast.stores.objects.bodies import FRESH
from holdfast.stores.objects.election import Election
from holdfast.stores.objects.head import KEY, MOST_HEAD, Commit, Head, Leader
from holdfast.stores.objects.limits import ADDING, Limits
from holdfast.stores.objects.pauses import Pauses
from holdfast.stores.objects.replica import Replica
from holdfast.stores.objects.sightings import Sighted, Sightings
from holdfast.stores.objects.tidying import Sizes, Tidying
from holdfast.stores.objects.wall_clock import WallClock

LONGEST_WAIT = 10.0
"""The seconds after which a request without an answer ends as unknown."""
MOST_REQUESTS, MOST_BYTES = 10_000, 1024 * 1024
MOST_CHANGES = MOST_HEAD // 2
"""The bytes of changes of one call beyond which it is refused: a head that it makes too large could not be read."""
_SMALLER = "enqueue fewer jobs in a call, or put large payloads into objects of your own"
_URGENT = frozenset(("beat", "open_lease", "end_lease"))
_ROUNDS = 5
"""How often at most a commit waits for those that were just answered."""
_STAMPS = 2**20
"""The stamps of one version: each request of a commit gets a different one."""
_OUTAGE = 5.0
"""The seconds without an answer of the bucket after which the owners of leases may have had none either."""


class Request(Struct):
    """A verb and its arguments. ``asked_at``: on the monotonic clock. ``body_at``: when the objects that it names were about to be
    written, by the time since boot. ``read``: the jobs in archives that were read for it."""

    verb: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    asked_at: float
    answer: Future[Any]
    body_at: float | None = None
    read: Mapping[str, Jobs] = {}


class Outcome(Struct):
    """What a request leads to: an answer, or an error."""

    value: Any = None
    error: BaseException | None = None


class Made(Struct):
    """A batch as it was applied to the book. ``changes``: of its requests, as JSON. ``flows``: what a write without an answer has done to
    workflows, if it has landed."""

    outcomes: list[Outcome] = []
    changes: list[bytes] = []
    flows: tuple[FlowChange, ...] = ()


class Committer:
    """Answers requests in batches, in the order of their arrival, on one event loop. It writes while no broker leads, or while it leads
    for the broker ``_me``; a leader also answers from memory.

    ``large``: the same bucket over a separate connection, for runs, which must not delay a beat.
    """

    def __init__(
        self,
        bucket: Bucket,
        name: str,
        *,
        large: Bucket,
        clock: Clock,
        chance: Randomness,
        pauses: Pauses,
        sizes: Sizes,
        new_book: Callable[[], Book] = Book,
        limits: Limits,
    ) -> None:
        self._bucket, self._name, self._clock, self._chance = bucket, name, clock, chance
        self._replica, self._sightings = Replica(bucket, name, new_book, limits), Sightings(clock)
        self.notices, self._pauses = self._replica.notices, pauses
        self.wall_clock = WallClock(bucket, clock, chance, self.notices)
        self._tidying = Tidying(large, clock, chance, self.notices, sizes, self._archive)
        self._me: Leader | None = None
        self._election, self._epoch = Election(None), 0
        self._turn = asyncio.Lock()  # to read or write the head
        self._waiting = deque[Request]()
        self._serving: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._is_known, self._must_look = False, True

    def take_flow_changes(self) -> tuple[FlowChange, ...]:
        """Return what committed writes of this process have done to workflows since the last call."""
        return self._replica.flow_changes.take()

    def add(self, request: Request) -> None:
        """Take a request, which is answered later in any case."""
        self._waiting.append(request)
        if request.verb in _URGENT:
            self._hurry.set()
        if self._serving is None:
            self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def finish(self) -> None:
        """Return when all requests are answered, and no run is being written."""
        while self._serving is not None or self._tidying.is_busy:
            await self._tidying.finish()
            if self._serving is not None:
                await asyncio.wait([self._serving])

    def now(self) -> datetime:
        """Return the time of the next verb."""
        return self.wall_clock.now(self._replica.head)

    async def _serve(self) -> None:
        try:
            while self._waiting:
                async with self._turn:
                    batch = self._next_batch()
                    try:
                        await self._answer(batch)
                    except Exception as error:
                        self._replica.undo()
                        for request in batch:
                            tell(request, Outcome(error=error))
        finally:
            self._serving = None

    def _next_batch(self) -> list[Request]:
        batch = list[Request]()
        self._hurry.clear()
        while self._waiting and len(batch) < MOST_REQUESTS:
            request = self._waiting.popleft()
            if request.answer.running() or request.answer.set_running_or_notify_cancel():
                batch.append(request)
        return batch

    async def _answer(self, batch: list[Request]) -> None:
        """Answer all requests of a batch. ``StoreUnavailable``: what became of them is unknown."""
        in_doubt, is_fresh = dict[str, Made](), False
        deadline = (batch[0].asked_at if batch else self._clock.monotonic()) + LONGEST_WAIT
        is_unsure = self._must_look or self._pauses.is_failing or self.wall_clock.is_unsure
        if is_unsure or (self._me is None and self._replica.head.broker is not None):
            await self._look(deadline)
            is_fresh = True
        while True:
            self._require_turn()
            made = self._apply(batch, may_be_part=not in_doubt)
            if not made.changes and self._me is None:
                if is_fresh or not await self._look(deadline):
                    return _leave(batch, made)
                is_fresh = True
                continue
            # asked after the verbs: the process may have stood still in between
            if not made.changes and self._election.may_answer(self._clock.boottime()):
                return _leave(batch, made)
            base, nonce = self._replica.head, self._new_nonce()
            try:
                await self._write(base, made, nonce)
            except BucketUnavailable as error:
                in_doubt[nonce] = made
                await self._pause(self._pauses.after_failure(error), deadline, error)
            else:
                _leave(batch, made)
                return await self._rest(len(batch))
            await self._look(deadline)
            is_fresh = True
            if self._replica.head.version > base.version:
                landed = self._replica.head.nonce_of(base.version + 1)
                if landed is None:
                    raise StoreUnavailable(f"{self._name}: too many others wrote since a write without an answer")
                if landed in in_doubt:
                    self._replica.flow_changes.add(in_doubt[landed].flows)
                    return _leave(batch, in_doubt[landed])
                in_doubt.clear()  # their condition can never hold again

    def _apply(self, batch: list[Request], *, may_be_part: bool) -> Made:
        """Call the verbs. A verb that fails, or whose changes cannot be written, leaves nothing in the book.

        ``may_be_part``: requests that would make the write too large wait for the next one.
        """
        made, size = Made(), 0
        if self._election.has_lapsed(self._clock.boottime()):
            self._sightings.forget()
        for number, request in enumerate(batch):
            if size > MOST_BYTES and may_be_part:
                self._waiting.extendleft(reversed(batch[number:]))
                del batch[number:]
                break
            outcome, changes = self._call(request, number)
            made.outcomes.append(outcome)
            if changes:
                made.changes.append(changes)
                size += len(changes)
        return made

    def _call(self, request: Request, number: int) -> tuple[Outcome, bytes]:
        book = self._replica.book
        start, jobs = book.savepoint(), book.job_count
        first = (self._replica.head.version + 1) * _STAMPS
        sightings = self._sightings
        now = Sighted(self.now(), first + number, first, sightings.elapsed, sightings.beats)
        try:
            if self._election.leads and _is_soft(request):
                return Outcome(self._beat(*request.arguments, first=first)), b""
            if request.body_at is not None and self._clock.boottime() - request.body_at > FRESH:
                raise StoreUnavailable(f"{self._name}: this process stood still in the call: call again")
            if book.has_archives:
                take_back(book, request.verb, request.arguments, request.keywords, request.read)
            answer = getattr(book, request.verb)(now, *request.arguments, **request.keywords)
            if request.verb in READING:
                book.undo(start)
            if request.verb in ADDING and book.job_count > jobs:
                self._replica.require_room()
            if not (changes := book.changes(start)):
                return Outcome(answer), b""
            try:
                written = encode(changes)
            except UnicodeEncodeError:
                written = encode_sayable(changes)
                book.write(decode(written))
            if len(written) > MOST_CHANGES:
                raise StoreRefused(f"{self._name}: one call writes {len(written) >> 20} MiB: {_SMALLER}")
            return Outcome(answer), written
        except Exception as error:
            book.undo(start)
            return Outcome(error=error), b""

    def _beat(self, leases: Sequence[UUID], *, first: int) -> BeatAnswer:
        """Renew leases in memory: no other process judges them."""
        answer = self._replica.book.alive(leases)
        for lease in answer.alive:
            if (since := self._replica.book.renewed_at(lease)) < first:
                self._sightings.renew(lease, since)
        return answer

    async def _write(self, base: Head, made: Made, nonce: str) -> None:
        """Write the next head, composed on ``base``: the newest one, perhaps with another broker and epoch. ``BucketUnavailable``: it is
        unknown whether it was written, and nothing of it is in the book."""
        if (pause := self._pauses.before_write()) > 0:
            await self._clock.sleep(pause)
        started, sent = self._clock.monotonic(), self._clock.boottime()
        now = self.wall_clock.now(base)
        commit = Commit(base.version + 1, nonce, now, tuple(Raw(each) for each in made.changes))
        new_run, collected = self._tidying.new_run, self._tidying.collected
        garbage = tuple(each for each in base.garbage if each not in collected)
        head = structs.replace(base.followed_by(commit), garbage=garbage)
        if new_run is not None:
            head = new_run.put_into(head, now)
        if len(body := json.encode(head)) > MOST_HEAD:
            self._tidying.begin(base, self._replica.book, now)
            raise StoreUnavailable(
                f"{self._name}: {KEY} would be too large until a run is written: try again, or see `holdfast check`"
            )
        try:
            etag = await self._bucket.put(KEY, body, self._replica.etag)
        except BucketUnavailable:
            made.flows = self._replica.undo()
            self._election.doubt()
            self._must_look = True
            raise
        self._replica.adopt(head, etag)
        self._tidying.has_written(new_run, collected)
        if self._election.has_lapsed(self._clock.boottime()):
            self._sightings.forget()
        if self._me is not None and head.broker == self._me:
            self._election.land(head.version, head.epoch, sent=sent)
        self._enter(head.epoch)
        self._pauses.wrote(self._clock.monotonic() - started)
        self._has_ended_outage()
        self._tidying.begin(head, self._replica.book, now)

    def _archive(self, arguments: tuple[Any, ...], written_at: float) -> Future[bool]:
        request = Request("archive", arguments, {}, self._clock.monotonic(), Future(), written_at)
        self.add(request)
        return request.answer

    async def _look(self, deadline: float) -> bool:
        """Read until an answer counts; return whether verbs may answer differently now. ``StoreUnavailable`` after the deadline."""
        while True:
            others, asked = self._replica.others, self._clock.monotonic()
            try:
                is_new = await self._replica.look()
                if self.wall_clock.is_unsure:
                    await self.wall_clock.compare()
            except BucketUnavailable as error:
                await self._pause(self._pauses.after_failure(error), deadline, error)
                continue
            if self._is_known and self._replica.others > others:
                self._pauses.saw_others()
            self._is_known, self._must_look = True, False
            self._observe(asked)
            return self._has_ended_outage() or is_new

    def _observe(self, asked: float) -> None:
        head = self._replica.head
        broker = None if head.broker is None else head.broker.id
        self._election.observe(head.version, head.epoch, broker, asked=asked, received=self._clock.monotonic())
        self._enter(head.epoch)

    def _enter(self, epoch: int) -> None:
        """Forget in a new epoch what was seen in others: what a leader knows of leases is not in the bucket."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._sightings.forget()

    def _require_turn(self) -> None:
        """Raise ``Misdirected`` if another process is the only one that may write and judge."""
        leader = self._replica.head.broker
        if leader is None if self._me is None else self._election.leads:
            return
        if leader is None or leader == self._me:
            raise Misdirected(f"{self._name}: no broker leads now: try again", None)
        remedy = "use its URL, or leave broker=never out" if self._me is None else "ask it"
        raise Misdirected(f"{self._name}: the broker at {leader.url} leads: {remedy}", leader.url)

    async def _pause(self, seconds: float, deadline: float, error: BucketUnavailable) -> None:
        """Wait before the next try, or raise the error if that would be too late."""
        if self._clock.monotonic() + seconds > deadline:
            raise error
        if seconds > 0:
            await self._clock.sleep(seconds)

    async def _rest(self, requests: int) -> None:
        """Let others write; or wait while those that were just answered come again, so that they share the next commit."""
        if (pause := self._pauses.for_others()) > 0:
            return await self._sleep(pause)
        everyone = len(self._waiting) + requests
        for _ in range(_ROUNDS if requests > 1 else 0):
            if (seen := len(self._waiting)) >= everyone:
                return
            await self._sleep(self._pauses.for_company())
            if len(self._waiting) == seen or self._hurry.is_set():
                return

    async def _sleep(self, seconds: float) -> None:
        """Wait, unless a request comes that must not."""
        if not self._hurry.is_set():
            sleeping = [asyncio.ensure_future(self._clock.sleep(seconds)), asyncio.ensure_future(self._hurry.wait())]
            await asyncio.wait(sleeping, return_when=asyncio.FIRST_COMPLETED)
            for each in sleeping:
                each.cancel()

    def _new_nonce(self) -> str:
        return self._chance.uuid4().hex[:16]

    def _has_ended_outage(self) -> bool:
        """Note an answer of the bucket; return whether it ended an outage: leases are watched from now on, because their owners may
        have had no answer either."""
        has_ended = self._pauses.answered() > _OUTAGE
        if has_ended:
            self._sightings.forget()
        return has_ended


def _is_soft(request: Request) -> bool:
    """Return whether a request is a beat of which nothing must be kept."""
    return request.verb == "beat" and not any(request.keywords.values())


def _leave(batch: list[Request], made: Made) -> None:
    for request, outcome in zip(batch, made.outcomes, strict=True):
        tell(request, outcome)


def tell(request: Request, outcome: Outcome) -> None:
    if request.answer.done():
        return
    if outcome.error is None:
        request.answer.set_result(outcome.value)
    else:
        request.answer.set_exception(outcome.error)
