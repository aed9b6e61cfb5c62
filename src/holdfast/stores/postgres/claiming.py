"""The claims of a store: along the sole range, over all lanes in turn, or of jobs that a transport delivered."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct, structs

from holdfast._core.job import Claim
from holdfast._core.lanes import Cursor, LaneHead, deal
from holdfast._core.lifecycle import Transition
from holdfast._core.requests import ClaimRequest, IsolatedJobs
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.claim_cursor import ClaimCursor, kind_of
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.lane_report import LaneReport, Position
from holdfast.stores.postgres.lane_walk import Walk, queues_of

MOST_WALKS = 6
"""The statements of one claim. After that the caller asks again: it must learn what its outcomes became."""
MOST_WITHOUT = 32
"""The jobs that take no results, one after the other, from which on claims read none."""
MISSES = 64, 512
"""The lanes without due jobs after which the first walk of a claim, and each later one, gives up. The first one also settles."""
UNKNOWN = -(10**9)

_DUE = {
    "lanes": ("due_lanes", None),
    "due_range": ("due_range", "others"),
    "due_range_wanted": ("due_range", "others_wanted"),
    "due_ids": ("due_ids", None),
}
"""The files that complete ``exchange.sql`` or ``exchange_lanes.sql``: where to look, and how to see that other ranges are left."""
_KINDS = 64  # of claims whose cursors are kept
_NEW = ClaimCursor()

Rows = list[asyncpg.Record]
Kind = tuple[object, ...]


class Claimed(Struct):
    """The answer of a claim. ``settled``: how many transitions were applied, negative if unknown."""

    settled: int
    cursor: Cursor
    claims: tuple[Claim, ...] = ()
    is_whole: bool = True
    has_limits: bool = False


class Round(Struct, frozen=True):
    """A round over all lanes that several walks share. ``start``: the cursor it began with; ``at``: where the last walk gave up."""

    start: Cursor
    at: Position | None = None


class Claiming(StoreDatabase):
    """The part of the store that claims."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cursors: dict[Kind, ClaimCursor] = {}
        self._rounds: dict[tuple[Kind, Cursor], Round] = {}
        self._has_limits = False  # as the last answer had it
        self._without_inputs = 0  # the jobs claimed since the last one that takes results

    async def _claim(self, request: ClaimRequest, plain: Sequence[Transition] = ()) -> Claimed:
        """Settle these first-try successes and claim."""
        parts = request.parts() if request.tasks and request.ids != () else ()
        answer = Claimed(0 if parts else (await self._settle(plain))[0], request.cursor)
        for number, part in enumerate(parts):
            ask = self._claim_lanes if part.ids is None else self._claim_delivered
            found = await ask(structs.replace(part, cursor=answer.cursor), plain if number == 0 else ())
            answer.settled += found.settled
            answer.cursor, answer.is_whole = found.cursor, found.is_whole
            answer.claims += found.claims
            if len(found.claims) < part.room:
                break
        answer.has_limits = self._has_limits
        return answer

    async def _settle(self, transitions: Sequence[Transition]) -> tuple[int, frozenset[int]]:
        """Settle transitions; return how many were applied, and the claim numbers of those whose precondition failed."""
        if not transitions:
            return 0, frozenset()
        columns = (*packing.settling(transitions), packing.rare_kinds(transitions), [])
        ((settled, refused, *_),) = await self._fetch("settle", *columns)
        return settled, frozenset(refused)

    async def _claim_delivered(self, request: ClaimRequest, plain: Sequence[Transition]) -> Claimed:
        """Claim jobs that a transport delivered. Jobs that run isolated may need a separate lease."""
        name, where = "due_ids", (request.ids, request.queues)
        rows = await self._fetch(self._verb(plain, name), *packing.settling(plain), *packing.claiming(request), *where)
        settled = self._settled_with(rows, plain)
        if not rows and request.isolated is not IsolatedJobs.EXCLUDE:  # of many workers with one hint, all but one get nothing
            rows = await self._retrying(partial(self._claim_for_isolated_lease, request, name, where), name)
        return Claimed(settled, request.cursor, self._claims_of(rows, request))

    async def _claim_lanes(self, request: ClaimRequest, plain: Sequence[Transition]) -> Claimed:
        """Claim along the sole range, or else over all lanes."""
        cursor, settled, claims = self._cursors.get(kind_of(request), _NEW), 0, tuple[Claim, ...]()
        if cursor.leads_on(self._clock.monotonic()):
            found = await self._claim_range(request, plain, cursor)
            if len(found.claims) == request.room:
                return found
            settled, claims, plain = found.settled, found.claims, ()
            request = request.rest(len(claims), found.cursor)
        answer = await self._walk(request, plain)
        return structs.replace(answer, settled=settled + answer.settled, claims=claims + answer.claims)

    async def _claim_range(self, request: ClaimRequest, plain: Sequence[Transition], cursor: ClaimCursor) -> Claimed:
        """Claim along the sole range."""
        part = "due_range" if request.queues is None else "due_range_wanted"
        wanted = () if request.queues is None else (queues_of(request),)
        values = (*packing.settling(plain), *packing.claiming(request), *cursor.due_range, *wanted)
        rows = await self._fetch(self._verb(plain, part), *values)
        self._remember(kind_of(request), cursor.after_range(rows, request.room))
        settled = self._settled_with(rows, plain)
        if not rows:
            return Claimed(settled, request.cursor)
        first = rows[0]
        lane = LaneHead(first["priority"], first["queue"], first["key"], len(rows), cursor.weight)
        served = deal([lane], len(rows), request.cursor, is_cut=False).cursor
        return Claimed(settled, served, self._claims_of(rows, request))

    async def _walk(self, request: ClaimRequest, plain: Sequence[Transition]) -> Claimed:
        """Claim over all lanes, in as many statements as it takes to fill the claim or to go round, but not in too many."""
        kind, first = kind_of(request), request.cursor
        round_ = self._rounds.pop((kind, first), Round(first))
        answer = Claimed(0, first)
        for number in range(MOST_WALKS):
            cursor, now = self._cursors.get(kind, _NEW), self._clock.monotonic()
            rest = request.rest(len(answer.claims), answer.cursor)
            seen, look = cursor.seen(now), rest.room + cursor.slack
            walk = Walk(look=look, misses=MISSES[number > 0], turns=cursor.turns, start=round_.start, at=round_.at, seen=seen)
            rows, report, settled = await self._take_lanes(rest, plain if number == 0 else (), walk.parameters(rest))
            answer.settled += settled
            answer.claims += self._claims_of(rows, rest)
            heads = report.heads(rows)
            answer.cursor = report.cursor(heads, look, round_.start, answer.cursor)
            if len(rows) == rest.room:
                self._remember(kind, cursor.after_walk(rows, heads, report, now))
                return answer
            is_locked = len(rows) < report.dealt and report.has_owner is True
            self._remember(kind, cursor.after_locks(rest.room) if is_locked else _NEW)
            if report.given_up is not None:
                round_ = Round(round_.start, report.given_up)
            elif seen or (is_locked and report.dealt == look):
                round_ = Round(answer.cursor)
            else:
                return answer
        if len(self._rounds) >= _KINDS:
            self._rounds.clear()
        self._rounds[kind, answer.cursor] = round_
        answer.is_whole = False
        return answer

    async def _take_lanes(
        self, request: ClaimRequest, plain: Sequence[Transition], where: tuple[Any, ...]
    ) -> tuple[Rows, LaneReport, int]:
        """Return the rows of one walk, what it saw, and how many transitions it settled."""
        *rows, last = await self._fetch(self._verb(plain, "lanes"), *packing.settling(plain), *packing.claiming(request), *where)
        report, settled = msgspec.json.decode(last["report"], type=LaneReport), last["settled"]
        if report.is_isolated and report.has_owner is False:
            again = await self._retrying(partial(self._claim_for_isolated_lease, request, "lanes", where), "lanes")
            if again:
                *rows, last = again
                report = msgspec.json.decode(last["report"], type=LaneReport)
        self._has_limits = report.has_limits
        return rows, report, settled

    def _verb(self, plain: Sequence[Transition], part: str) -> str:
        """Return the name of a claim, with a settle if there are transitions.

        Its plan reads each partition of the finished jobs for the results that claimed jobs take. That costs 0.16 ms of CPU even if none
        takes any, so it is left out after many such jobs. A job that lacks results has its worker read them.
        """
        return f"{'exchange' if plain else 'claim'} {part}{' results' if self._without_inputs < MOST_WITHOUT else ''}"

    def _claims_of(self, rows: Rows, request: ClaimRequest) -> tuple[Claim, ...]:
        claims = answers.claims_of(rows, request)
        self._without_inputs = 0 if any(claim.inputs for claim in claims) else self._without_inputs + len(claims)
        return claims

    def _settled_with(self, rows: Rows, plain: Sequence[Transition]) -> int:
        """Return how many transitions were settled with a claim; negative if that is unknown."""
        if not rows:
            return UNKNOWN if plain else 0
        self._has_limits = rows[0]["has_limits"]
        return int(rows[0]["settled"])

    async def _claim_for_isolated_lease(self, request: ClaimRequest, name: str, where: tuple[Any, ...]) -> Rows:
        """Claim for an isolated lease: a second claim of it waits here, and then sees the job that the first one took."""
        async with self._transaction() as connection:
            is_isolated = await connection.fetch(self._sql("isolated_lease"), request.lease)
            if not is_isolated or await connection.fetch(self._sql("lease_has_jobs"), request.lease):
                return []
            values = (*packing.settling(()), *packing.claiming(request, is_isolated=True), *where)
            return await connection.fetch(self._sql(f"claim {name}"), *values)

    def _remember(self, kind: Kind, cursor: ClaimCursor) -> None:
        if len(self._cursors) >= _KINDS:
            self._cursors.clear()
        self._cursors[kind] = cursor

    def _forget_positions(self) -> None:
        """Search all ranges from their beginning: a job is due again before the position of a cursor."""
        self._cursors.clear()

    def _text(self, name: str) -> str:
        """Return the text of a query; ``exchange due_range`` is ``exchange.sql`` with ``due_range.sql`` inserted, and ``claim
        due_range`` is the same without settling; ``results`` behind it adds ``results.sql``."""
        whole, _, part = name.partition(" ")
        read, (part, _, more) = super()._text, part.partition(" ")
        text = read("exchange_lanes" if part == "lanes" else "exchange" if part else name)
        due, others = _DUE.get(part, (part, None))
        pieces = {
            "settling": read("nothing_settled" if whole == "claim" else "settling"),
            "walk": read("walk"),
            "results": read("results") if more else "NULL",
            "counted": "true" if part == "due_chosen" else "false",
            "due": read(due) if due else "",
            "others": read(others) if others else "false",
        }
        for piece, its_text in pieces.items():
            text = text.replace(f"-- {piece}\n", its_text.rstrip() + "\n")
        return text.replace("job.flow IS NULL", "job.flow = ANY(:flows::uuid[])") if name == "settle_members" else text
