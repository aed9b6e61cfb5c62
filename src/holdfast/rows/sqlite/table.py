"""The verbs over a table of SQLite."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

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
from holdfast.databases.sqlite import driver
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.database import BUSY_LIMIT
from holdfast.databases.sqlite.spare_connection import SpareConnection
from holdfast.databases.sqlite.transactions import TransactionTurns, blocking, in_thread
from holdfast.errors import Unsupported
from holdfast.rows import messages as wording
from holdfast.rows.refusals import ROUNDS, Refusals
from holdfast.rows.sqlite import inspection, moves
from holdfast.rows.sqlite.catalog import facts_of
from holdfast.rows.sqlite.database import Rows, RowsFile, StatementRefused
from holdfast.rows.sqlite.forms import Stamp
from holdfast.rows.sqlite.statements import Statements

HOLDERS = 20
LOOKED_THROUGH = 3600.0
"""Seconds after which a look for rows to delete begins below ``usual`` again, where stamps of another form are in its way."""

Answer = TypeVar("Answer")
Verb = Callable[[RowsFile, Statements], Answer]
Keys = Sequence[Key] | None
"""The keys of a part of a batch; ``None`` for all rows there are."""


class SqliteTable:
    """A table that is watched; the first verb opens the file, in a separate thread."""

    def __init__(
        self,
        path: str | Path,
        watch: TableSpec,
        *,
        clock: Clock,
        chance: Randomness,
        process: ProcessIdentity,
        busy_limit: float = BUSY_LIMIT,
        use_apsw: bool | None = None,
    ) -> None:
        place, is_apsw = Path(path).absolute(), driver.is_apsw(use_apsw)
        self._thread = ConnectionThread(lambda: RowsFile(place, clock, chance, process, busy_limit=busy_limit, use_apsw=is_apsw))
        self._watch, self._clock = watch, clock
        # What the user has declared holds for deletes of Holdfast too.
        self._spares, turns = SpareConnection(place, "PRAGMA foreign_keys = ON", use_apsw=is_apsw), TransactionTurns()
        self._block = partial(
            moves.RowsBlock, place, idle=moves.IDLE, chance=chance, turns=turns, spares=self._spares, busy_limit=busy_limit
        )
        self._statements: Statements | None = None
        self._refusals = Refusals(clock.monotonic)
        self._looked_through = -math.inf

    @property
    def watch(self) -> TableSpec:
        return self._watch

    async def inspect(self) -> Findings:
        return await self._thread.run(lambda file: inspection.inspect(file, self._watch))

    async def create_indexes(self) -> tuple[str, ...]:
        def create(file: RowsFile, statements: Statements) -> tuple[str, ...]:
            facts = facts_of(file, self._watch)
            missing = [] if isinstance(facts, str) else inspection.missing_indexes(statements, self._watch, facts)
            texts = tuple(statements.create_index(want) for want in missing)
            for sql in texts:
                file.ask("create index", sql)
            self._statements = None  # the next verb looks at the table again
            return texts

        return await self._run(create)

    async def has_due(self) -> bool:
        return await self._run(
            lambda file, statements: bool(file.ask(self._name("has_due"), statements.texts.of("has_due"))[0][0])
        )

    async def stamps(self, number: int) -> list[str]:
        if self._watch.owner is not None:
            return []
        return await self._run(lambda file, statements: [str(statements.form.stamp(at)) for at in file.reserve(number)])

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        def claim(file: RowsFile, statements: Statements) -> ClaimedRows:
            for given in (stamp, ""):  # after a step of the clock another process may have rows under the same stamp
                now = statements.form.read(given) if given else self._new_stamp(file, statements)
                fence = statements.fence_of(now, owner)
                values = {"limit": limit, "now": now, "owner": owner, "fence": statements.fence_value(fence)}
                if rows := self._claimed(file, statements, values):
                    break
            keys = statements.keys_of(rows)
            if rows and self._watch.order_by is not None:
                order = {key: place for place, key in enumerate(file.ask(self._name("claim"), statements.held, values))}
                places = sorted(range(len(rows)), key=lambda place: order.get(keys[place], 0))
                rows, keys = [rows[place] for place in places], tuple(keys[place] for place in places)
            return ClaimedRows(fence, statements.records_of(rows, now, owner), keys)

        return await self._run(claim)

    async def move(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        def move(file: RowsFile, statements: Statements) -> list[Key]:
            name, asked = self._name("move"), (fence, keys, end, reason, file.stamp)
            if (
                is_all
                and statements.finds_fences
                and file.all_of(name, *statements.move_all(fence, end, reason, file.stamp), len(keys))
            ):
                return list(keys)
            at_once = [*statements.move(*asked, returns_keys=False)]
            if len(at_once) == 1 and file.all_of(name, *at_once[0], len(keys)):
                return list(keys)
            return [key for question in statements.move(*asked) for key in file.ask(name, *question)]

        return await self._run(move)

    async def release(self, fence: RowFence) -> int:
        if not (fence.stamp if self._watch.owner is None else fence.owner):
            return 0  # from a time when the watch had an owner, or had none: nothing identifies its rows

        def release(file: RowsFile, statements: Statements) -> int:
            values = {"fence": statements.fence_value(fence)}

            def act(keys: Keys) -> int:
                among, given = statements.among(keys)
                return self._count(file, "release", statements.release(among), {**values, **given}, is_part=keys is not None)

            candidates = partial(self._candidates, file, statements, "release", values)
            return sum(self._sparing("release", act, candidates, MAX_BATCH))

        return await self._run(release)

    async def renew(self, fence: RowFence) -> RowFence | None:
        if self._watch.owner is None:
            remedy = "name a column, as owner='claimed_by'"
            raise Unsupported(f"rows {self._watch.name}: only an owner's rows can get a new stamp: {remedy}")

        def renew(file: RowsFile, statements: Statements) -> RowFence | None:
            stamp = statements.form.stamp(file.stamp())
            count = self._under(file, statements, statements.renew(), fence, stamp)
            return statements.fence_of(stamp, fence.owner) if count else None

        return await self._run(renew)

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        def adopt(file: RowsFile, statements: Statements) -> list[Key]:
            form, now = statements.form, self._clock.wall()
            values = {"limit": limit, "now": form.stamp(now), "ahead": form.since(now + self._watch.stale_after)}

            def act(keys: Keys) -> list[Key]:
                among, given = statements.among(keys)
                return self._rows(file, "adopt", statements.texts.of("adopt", among=among), {**values, **given}, keys)

            candidates = partial(self._candidates, file, statements, "adopt", values)
            return [tuple(row) for rows in self._sparing("adopt", act, candidates, limit) for row in rows]

        return await self._run(adopt)

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        def reset(file: RowsFile, statements: Statements) -> list[ResetRow]:
            name, since, now = self._name("reset"), statements.form.since, self._clock.wall()
            shared = {
                "now": since(now),
                "stale": since(now - self._watch.stale_after),
                "past": past,
                "from": statements.form.least,
            }
            stuck: dict[Key, tuple[Any, ...]] = {}

            def look(most: int) -> list[Key]:
                found = file.ask(name, statements.texts.of("stuck"), {**shared, "limit": most})
                stuck.update({tuple(key): (whose, held, stamp) for whose, held, stamp, *key in found})
                return [*stuck]

            def act(keys: Keys) -> Rows:
                asked = statements.reset([(stuck[key][-1], *key) for key in (look(limit) if keys is None else keys)])
                return [row for sql, values in asked for row in self._rows(file, "reset", sql, values, keys)]

            moved = {tuple(key): failed for rows in self._sparing("reset", act, look, limit) for failed, *key in rows}
            return [
                ResetRow(key, RowOutcome.FAIL if moved[key] else RowOutcome.RETRY, whose, held)
                for key, (whose, held, _) in stuck.items()
                if key in moved
            ]

        return await self._run(reset)

    async def prune(self, limit: int) -> int:
        retention = self._watch.retention
        if retention is None:
            return 0

        def prune(file: RowsFile, statements: Statements) -> int:
            forgettable, now = statements.form.since(self._clock.wall() - retention), self._clock.monotonic()
            is_done = now < self._looked_through
            values = {
                "limit": limit,
                "from": statements.form.usual if is_done else statements.form.least,
                "forgettable": forgettable,
            }

            def act(keys: Keys) -> int:
                among, given = statements.among(keys)
                return self._count(
                    file, "prune", statements.texts.of("prune", among=among), {**values, **given}, is_part=keys is not None
                )

            refused = self._refusals.known("prune")
            count = sum(self._sparing("prune", act, partial(self._candidates, file, statements, "prune", values), limit))
            if count < limit and not is_done and self._refusals.known("prune") <= refused:
                self._looked_through = now + LOOKED_THROUGH
            return count

        return await self._run(prune)

    async def unreadable(self, limit: int) -> list[Key]:
        def unreadable(file: RowsFile, statements: Statements) -> list[Key]:
            return file.ask(self._name("unreadable"), statements.texts.of("unreadable"), {"limit": limit})

        return await self._run(unreadable)

    def refused(self) -> list[Refusal]:
        return self._refusals.take()

    async def states(self) -> States:
        def states(file: RowsFile, statements: Statements) -> States:
            name, texts, since, now = self._name("states"), statements.texts, statements.form.since, self._clock.wall()
            values = {"now": since(now), "stale": since(now - self._watch.stale_after), "limit": HOLDERS}
            ((due, stuck, oldest),) = file.ask(name, texts.of("standing"), values)
            holders = tuple(RowHolder(*row) for row in file.ask(name, texts.of("holders"), values))
            return States(dict(file.ask(name, texts.of("states"))), due, stuck, oldest, holders)

        return await self._run(states)

    @asynccontextmanager
    async def transaction(self, fence: RowFence) -> AsyncIterator[RowWriter]:
        statements = await self._ready()
        block = self._block(statements)
        async with in_thread(block) as connection:
            yield moves.Awaited(moves.Blocking(connection, statements, fence, self._clock.wall, block))

    @contextmanager
    def blocking_transaction(self, fence: RowFence) -> Iterator[BlockingRowWriter]:
        statements = self._statements or asyncio.run(self._ready())
        block = self._block(statements)
        with blocking(block) as connection:
            yield moves.Blocking(connection, statements, fence, self._clock.wall, block)

    async def close(self) -> None:
        self._spares.close()  # first: the last connection of a file to close truncates its log, and does that in a thread
        await self._thread.close()
        self._spares.close()  # a connection that was being opened

    def _new_stamp(self, file: RowsFile, statements: Statements) -> Stamp:
        return statements.form.stamp(file.stamp() if self._watch.owner else file.reserve(1)[0])

    def _claimed(self, file: RowsFile, statements: Statements, values: dict[str, Any]) -> Rows:
        name, found = self._name("claim"), Rows()

        def act(keys: Keys) -> Rows:
            if keys is None and not statements.is_touched:
                return file.ask(name, statements.claim, values)
            among, given = statements.among(keys)
            sql = statements.claim_of(among, is_begun=bool(found))
            rows = file.at_once(name, partial(self._claim_whole, statements, sql, {**values, **given}, len(found)))
            found.extend(rows)
            return rows

        candidates = partial(self._candidates, file, statements, "claim", values)
        return [row for rows in self._sparing("claim", act, candidates, values["limit"]) for row in rows]

    def _claim_whole(
        self, statements: Statements, sql: str, values: dict[str, Any], before: int, connection: driver.Connection
    ) -> Rows:
        rows = connection.execute(sql, values).fetchall()
        if len(connection.execute(statements.held, values).fetchall()) < before + len(rows):
            raise wording.refusal(self._watch, wording.meddling_trigger(self._watch))
        return rows

    def _sparing(
        self,
        verb: str,
        act: Callable[[Keys], Answer],
        candidates: Callable[[int], list[Key]],
        limit: int,
    ) -> list[Answer]:
        """Call ``act`` for a whole batch; if a row of it is refused, for all others. A claim that gets none raises."""
        try:
            return [act(None)]
        except StatementRefused as error:
            refused = error
        found = list[Answer]()
        for _ in range(ROUNDS if verb == "claim" else 1):
            parts = self._refusals.parts(verb, candidates(limit + self._refusals.known(verb)), limit)
            for part in parts:
                try:
                    found.append(act(part))
                except StatementRefused as error:
                    parts.refuse(part, str(error.__cause__))
            self._refusals.learn(verb, parts)
            if any(found) or not parts.refused:
                break
        if verb == "claim" and not any(found) and (parts.refused or parts.is_empty):
            raise refused
        return found

    def _candidates(self, file: RowsFile, statements: Statements, verb: str, values: dict[str, Any], most: int) -> list[Key]:
        return [tuple(row) for row in file.ask(self._name(verb), statements.candidates(verb), {**values, "most": most})]

    def _rows(self, file: RowsFile, verb: str, sql: str, values: Any, part: Keys) -> Rows:
        """Run a statement for a part of a batch, and revert what was done before a trigger raised, even with RAISE(FAIL)."""
        if part is None:
            return file.ask(self._name(verb), sql, values)
        return file.at_once(self._name(verb), lambda connection: connection.execute(sql, values).fetchall())

    def _count(self, file: RowsFile, verb: str, sql: str, values: dict[str, Any], *, is_part: bool) -> int:
        if not is_part:
            return file.count(self._name(verb), sql, lambda: values)
        return file.at_once(self._name(verb), lambda connection: connection.execute(sql, values).rowcount)

    def _under(self, file: RowsFile, statements: Statements, sql: str, fence: RowFence, stamp: Any) -> int:
        return file.count(self._name("mark"), sql, lambda: {"fence": statements.fence_value(fence), "now": stamp})

    def _name(self, verb: str) -> str:
        return f"rows {self._watch.name}: {verb}"

    async def _run(self, verb: Verb[Answer]) -> Answer:
        statements = await self._ready()
        return await self._thread.run(lambda file: verb(file, statements))

    async def _ready(self) -> Statements:
        if self._statements is None:
            self._statements = await self._thread.run(self._prepared)
        return self._statements

    def _prepared(self, file: RowsFile) -> Statements:
        facts = facts_of(file, self._watch)
        if isinstance(facts, str):
            raise wording.refusal(self._watch, facts)
        if problems := [*wording.missing_columns(self._watch, facts.columns)]:
            raise wording.refusal(self._watch, *problems)
        statements = Statements(self._watch, facts)
        statements.finds_fences = not statements.is_touched and self._finds_fences(file, statements)
        return statements

    def _finds_fences(self, file: RowsFile, statements: Statements) -> bool:
        sql, values = statements.move_all(RowFence("", ""), RowOutcome.RETRY, "", self._clock.wall)
        plan = file.ask(self._name("plan"), f"EXPLAIN QUERY PLAN {sql}", values)
        return any(f"{self._watch.claimed_at}=?" in str(step[-1]) for step in plan)
