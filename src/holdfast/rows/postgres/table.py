"""The verbs over a table of PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from operator import itemgetter
from shlex import quote
from typing import Any

import asyncpg

from holdfast._core.identity import ProcessIdentity
from holdfast._core.table_spec import MAX_BATCH, Key, RowOutcome, TableSpec
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.table import (
    BlockingRowWriter,
    ClaimedRows,
    Findings,
    Refusal,
    ResetRow,
    RowFence,
    RowHolder,
    RowWriter,
    States,
)
from holdfast.databases.postgres.errors import first_line
from holdfast.errors import ConfigurationError, HoldfastError, Unsupported
from holdfast.rows import messages as wording
from holdfast.rows.postgres import inspection, moves
from holdfast.rows.postgres.catalog import facts_of, indexes_of
from holdfast.rows.postgres.database import Change, RowsDatabase, is_refusal
from holdfast.rows.postgres.statements import Statements
from holdfast.rows.records import keys_of
from holdfast.rows.refusals import ROUNDS, Parts, Refusals

HOLDERS = 20
ASIDE = ("holdfast place", "holdfast stamp", "holdfast ours")
"""The columns of a claim's answer besides those of its rows."""


class PostgresTable:
    """A table that is watched; no connection is opened before the first verb."""

    def __init__(
        self, url: str, watch: TableSpec, *, clock: Clock, chance: Randomness, process: ProcessIdentity, pooler: str | None = None
    ) -> None:
        self._way = RowsDatabase(url, pooler=pooler, clock=clock, chance=chance, process=process)
        self._watch = watch
        self._statements: Statements | None = None
        self._refusals = Refusals(clock.monotonic)

    @property
    def watch(self) -> TableSpec:
        return self._watch

    async def inspect(self) -> Findings:
        return await inspection.inspect(self._way, self._watch)

    async def create_indexes(self) -> tuple[str, ...]:
        statements, run = await self._ready(), list[str]()
        facts = await facts_of(self._way, self._watch)
        if isinstance(facts, str):
            raise wording.refusal(self._watch, facts)
        there = await indexes_of(self._way, facts)
        missing = inspection.missing_indexes(statements, self._watch, there)
        if missing and facts.kind == "p":
            statement = "; ".join(map(statements.create_index, missing))
            text = f"{wording.shown(self._watch)} has partitions: `{statement}`: {inspection.BY_HAND}"
            raise Unsupported(f"rows {self._watch.name}: {text}")
        try:
            async with self._way.dedicated() as link:
                for want in missing:
                    if any(each.index.name == want.name and not each.is_valid for each in there):
                        await link.execute(statements.drop_index(want))
                    run.append(statements.create_index(want))
                    await link.execute(run[-1])
        except ConfigurationError as error:
            if not isinstance(error.__cause__, asyncpg.InsufficientPrivilegeError):
                raise
            listed = f"`holdfast rows indexes {quote(self._watch.name)}`"
            remedy = f"{first_line(error.__cause__)}: what {listed} lists, pasted into psql by that owner, creates them"
            raise wording.refusal(self._watch, remedy) from error
        return tuple(run)

    async def has_due(self) -> bool:
        ((found,),) = await self._ask("has_due", ((await self._ready()).texts.of("has_due"),))
        return bool(found)

    async def stamps(self, number: int) -> list[str]:
        return []  # the claim itself reads the server's clock

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        statements, name = await self._ready(), f"rows {self._watch.name}: claim"

        async def ask() -> list[Any]:
            question = statements.claim(owner, limit)
            if statements.is_touched:
                rows = await self._way.ask_unless(name, self._require_ours, *question)
            else:
                rows = await self._way.ask(name, *question)
            return sorted(rows, key=itemgetter(0))

        rows = await self._sparing("claim", ask(), lambda keys: statements.claim(owner, limit, keys), limit)
        fence = RowFence("", owner) if self._watch.owner else RowFence(rows[0][1] if rows else "", "")
        keys = keys_of(rows, self._watch.key)
        return ClaimedRows(fence, tuple(map(_record, rows)), keys)

    async def move(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        if not keys:
            return []
        return [tuple(row) for row in await self._ask("move", (await self._ready()).move(fence, keys, end, reason))]

    async def release(self, fence: RowFence) -> int:
        if not (fence.stamp if self._watch.owner is None else fence.owner):
            return 0  # from a time when the watch had an owner, or had none: nothing identifies its rows
        statements = await self._ready()
        asked = self._ask("release", statements.release(fence))
        return _sum(await self._sparing("release", asked, lambda keys: statements.release(fence, keys), fence=fence))

    async def renew(self, fence: RowFence) -> RowFence | None:
        if self._watch.owner is None:
            raise Unsupported(
                f"rows {self._watch.name}: only an owner's rows can get a new stamp: name a column, as owner='claimed_by'"
            )
        ((count, stamp),) = await self._ask("renew", (await self._ready()).renew(fence))
        return RowFence(stamp, fence.owner) if count else None

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        statements = await self._ready()
        asked = self._ask("adopt", statements.adopt(limit))
        return [tuple(row) for row in await self._sparing("adopt", asked, lambda keys: statements.adopt(limit, keys), limit)]

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        statements = await self._ready()
        asked = self._ask("reset", statements.reset(limit, past))
        rows = await self._sparing("reset", asked, lambda keys: statements.reset(limit, keys=keys), limit, past=past)
        return [
            ResetRow(tuple(key), RowOutcome.FAIL if has_failed else RowOutcome.RETRY, whose, held)
            for has_failed, whose, held, *key in rows
        ]

    async def prune(self, limit: int) -> int:
        if self._watch.retention is None:
            return 0
        statements = await self._ready()
        asked = self._ask("prune", statements.prune(limit))
        return _sum(await self._sparing("prune", asked, lambda keys: statements.prune(limit, keys), limit))

    async def unreadable(self, limit: int) -> list[Key]:
        return []  # the type of the column holds nothing but times

    def refused(self) -> list[Refusal]:
        return self._refusals.take()

    async def states(self) -> States:
        texts = (await self._ready()).texts
        questions = [(texts.of("states"),), (texts.of("standing"),), (texts.of("holders"), HOLDERS)]
        counts, ((due, stuck, oldest),), holders = await self._way.search("states", *questions)
        rows = {status if status is not None else "NULL": number for status, number in counts}
        return States(rows, due, stuck, oldest, tuple(RowHolder(*row) for row in holders))

    @asynccontextmanager
    async def transaction(self, fence: RowFence) -> AsyncIterator[RowWriter]:
        statements = await self._ready()
        block = moves.RowsBlock(self._way)
        async with self._way.transaction(block) as link:
            yield moves.Awaited(link, statements, fence, block)

    @contextmanager
    def blocking_transaction(self, fence: RowFence) -> Iterator[BlockingRowWriter]:
        statements = self._statements or asyncio.run(self._ready())
        block = moves.RowsBlock(self._way)
        with self._way.blocking_transaction(block) as connection:
            yield moves.Blocking(connection, statements, fence, block)

    async def close(self) -> None:
        await self._way.close()

    def _require_ours(self, rows: list[Any]) -> None:
        if not all(row["holdfast ours"] for row in rows):
            raise wording.refusal(self._watch, wording.meddling_trigger(self._watch))

    async def _sparing(
        self,
        verb: str,
        asked: Coroutine[Any, Any, list[Any]],
        change: Change,
        limit: int = MAX_BATCH,
        *,
        past: int = 0,
        fence: RowFence | None = None,
    ) -> list[Any]:
        """Ask for a whole batch; if a row of it is refused, ask for all others. A claim that gets none raises."""
        try:
            return await asked
        except HoldfastError as error:
            if not is_refusal(error):
                raise
            refused = error
        statements, refusals = await self._ready(), self._refusals
        order: dict[Key, int] = {}

        def divide(keys: list[Key]) -> Parts:
            order.update({key: place for place, key in enumerate(keys)})
            return refusals.parts(verb, keys[past:], limit)

        name, require = f"rows {self._watch.name}: {verb}", self._require_ours if verb == "claim" else _nothing
        for _ in range(ROUNDS if verb == "claim" else 1):
            candidates = statements.candidates(verb, past + limit + refusals.known(verb), fence)
            rows, parts = await self._way.ask_in_parts(name, candidates, divide, change, require)
            refusals.learn(verb, parts)
            if rows or not parts.refused:
                break
        if verb == "claim" and not rows and (parts.refused or parts.is_empty):
            raise refused
        if verb == "claim":
            rows.sort(key=lambda row: order[tuple(row[name] for name in self._watch.key)])
        return rows

    async def _ask(self, name: str, question: tuple[Any, ...]) -> list[Any]:
        return await self._way.ask(f"rows {self._watch.name}: {name}", *question)

    async def _ready(self) -> Statements:
        if self._statements is None:
            facts = await facts_of(self._way, self._watch)
            if isinstance(facts, str):
                raise wording.refusal(self._watch, facts)
            if problems := [*wording.missing_columns(self._watch, facts.columns)]:
                raise wording.refusal(self._watch, *problems)
            self._statements = Statements(self._watch, facts)
        return self._statements


def _nothing(_: list[Any]) -> None:
    """Require nothing of these rows."""


def _sum(rows: list[Any]) -> int:
    return sum(count for (count,) in rows)


def _record(row: asyncpg.Record) -> dict[str, Any]:
    found = dict(row)
    for name in ASIDE:
        del found[name]
    return found
