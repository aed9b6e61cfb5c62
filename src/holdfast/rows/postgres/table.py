"""The verbs over a table of PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from operator import itemgetter
from typing import Any

import asyncpg

from holdfast._core.identity import ProcessIdentity
from holdfast._core.watch import End, Key, Watch
from holdfast._ports.clock import Chance, Clock
from holdfast._ports.rows import BlockingMoves, Claimed, Findings, Holder, Mark, Moves, Reset, States
from holdfast.errors import Unsupported
from holdfast.rows import wording
from holdfast.rows.postgres import inspection, moves
from holdfast.rows.postgres.connect import Way
from holdfast.rows.postgres.facts import facts_of, indexes_of
from holdfast.rows.postgres.statements import Statements
from holdfast.rows.records import keys_of

HOLDERS = 20
ASIDE = ("holdfast place", "holdfast stamp", "holdfast ours")
"""What a claim answers besides the columns of its rows."""


class PostgresTable:
    """A table that is watched; nothing is asked before the first verb."""

    def __init__(
        self, url: str, watch: Watch, *, clock: Clock, chance: Chance, process: ProcessIdentity, pooler: str | None = None
    ) -> None:
        self._way = Way(url, pooler=pooler, clock=clock, chance=chance, process=process)
        self._watch = watch
        self._statements: Statements | None = None

    @property
    def watch(self) -> Watch:
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
            remedy = "create them on each partition CONCURRENTLY, then on the table, or all at once while nobody writes"
            raise Unsupported(f"rows {self._watch.name}: {wording.shown(self._watch)} has partitions: {remedy}")
        async with self._way.apart() as link:
            for want in missing:
                if any(each.index.name == want.name and not each.is_valid for each in there):
                    await link.execute(statements.drop_index(want))
                run.append(statements.create_index(want))
                await link.execute(run[-1])
        return tuple(run)

    async def has_due(self) -> bool:
        ((found,),) = await self._ask("has_due", ((await self._ready()).texts.of("has_due"),))
        return bool(found)

    async def stamps(self, number: int) -> list[str]:
        return []  # the server's clock is asked by the claim itself

    async def claim(self, owner: str, limit: int, stamp: str = "") -> Claimed:
        statements, name = await self._ready(), f"rows {self._watch.name}: claim"
        question = statements.claim(owner, limit)
        if statements.is_touched:
            rows = await self._way.ask_unless(name, self._require_ours, *question)
        else:
            rows = await self._way.ask(name, *question)
        rows.sort(key=itemgetter(0))
        mark = Mark("", owner) if self._watch.owner else Mark(rows[0][1] if rows else "", "")
        keys = keys_of(rows, self._watch.key)
        return Claimed(mark, tuple(map(_record, rows)), keys)

    async def move(self, mark: Mark, keys: Sequence[Key], end: End, reason: str = "", *, is_all: bool = False) -> list[Key]:
        if not keys:
            return []
        return [tuple(row) for row in await self._ask("move", (await self._ready()).move(mark, keys, end, reason))]

    async def release(self, mark: Mark) -> int:
        if not (mark.stamp if self._watch.owner is None else mark.owner):
            return 0  # of a time when the watch had an owner, or had none: there is nothing to tell its rows by
        ((count,),) = await self._ask("release", (await self._ready()).release(mark))
        return int(count)

    async def renew(self, mark: Mark) -> Mark | None:
        if self._watch.owner is None:
            raise Unsupported(
                f"rows {self._watch.name}: only an owner's rows can be stamped anew: name a column, as owner='claimed_by'"
            )
        ((count, stamp),) = await self._ask("renew", (await self._ready()).renew(mark))
        return Mark(stamp, mark.owner) if count else None

    async def adopt(self, limit: int) -> list[Key]:
        return [tuple(row) for row in await self._ask("adopt", ((await self._ready()).adopt, limit))]

    async def reset(self, limit: int) -> list[Reset]:
        statements = await self._ready()
        return [
            Reset(tuple(key), End.FAIL if has_failed else End.RETRY, whose, held)
            for has_failed, whose, held, *key in await self._ask("reset", (statements.reset, limit))
        ]

    async def prune(self, limit: int) -> int:
        if self._watch.retention is None:
            return 0
        ((count,),) = await self._ask("prune", ((await self._ready()).prune, limit))
        return int(count)

    async def unreadable(self, limit: int) -> list[Key]:
        return []  # the type of the column admits nothing but times

    async def states(self) -> States:
        texts = (await self._ready()).texts
        questions = [(texts.of("states"),), (texts.of("standing"),), (texts.of("holders"), HOLDERS)]
        counts, ((due, stuck, oldest),), holders = await self._way.search("states", *questions)
        rows = {status if status is not None else "NULL": number for status, number in counts}
        return States(rows, due, stuck, oldest, tuple(Holder(*row) for row in holders))

    @asynccontextmanager
    async def transaction(self, mark: Mark) -> AsyncIterator[Moves]:
        statements = await self._ready()
        block = moves.RowsBlock(self._way)
        async with self._way.transaction(block) as link:
            yield moves.Awaited(link, statements, mark, block)

    @contextmanager
    def blocking_transaction(self, mark: Mark) -> Iterator[BlockingMoves]:
        statements = self._statements or asyncio.run(self._ready())
        block = moves.RowsBlock(self._way)
        with self._way.blocking_transaction(block) as connection:
            yield moves.Blocking(connection, statements, mark, block)

    async def close(self) -> None:
        await self._way.close()

    def _require_ours(self, rows: list[Any]) -> None:
        if not all(row["holdfast ours"] for row in rows):
            raise wording.refusal(self._watch, wording.meddling_trigger(self._watch))

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


def _record(row: asyncpg.Record) -> dict[str, Any]:
    found = dict(row)
    for name in ASIDE:
        del found[name]
    return found
