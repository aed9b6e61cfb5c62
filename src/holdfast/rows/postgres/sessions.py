"""Sessions for a user's transactions, kept and used again: to open a session takes longer than to finish a batch."""

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from asyncpg.pool import PoolConnectionProxy

from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.database import Database, keep_alive
from holdfast.databases.postgres.pool import Connection, Pool, file_of, hang_up
from holdfast.databases.postgres.transactions import GOOD_BYE, UserTransaction, awaited
from holdfast.errors import MissingExtra

KEPT = 60.0
"""Seconds: by then the facts that statements were planned for may have changed."""

_RESET = """
SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DISCARD TEMP; DISCARD SEQUENCES
"""


class Sessions(Database):
    """Sessions without settings that outlive a transaction, except those of the URL and ``server_settings``. What a transaction
    leaves behind is reset before the next."""

    @cached_property
    def _born(self) -> WeakKeyDictionary[Connection, float]:
        return WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The name of these sessions on the server."""
        return f"holdfast rows {self._process.host}-{self._process.pid}"[:63]

    @asynccontextmanager
    async def run(self, block: UserTransaction) -> AsyncIterator[Connection]:
        """Run a block in one of the sessions. The session is kept for the next block, except behind a pooler, which keeps its own."""
        pool, is_kept = self._here().shared, not self._location.is_pooled
        link = await self._young(pool)
        try:
            async with awaited(block, link, is_kept=is_kept):
                lent: Any = PoolConnectionProxy(None, link)  # type: ignore[arg-type]
                try:
                    yield lent
                finally:
                    lent._detach()  # code that the block has left running must not send statements in another transaction
            is_usable = is_kept and await _is_reset(link)
        except BaseException:
            pool.discard(link)
            raise
        (pool.release if is_usable else pool.discard)(link)

    @contextmanager
    def run_blocking(self, block: UserTransaction) -> Iterator[Any]:
        """Run a block through psycopg, from any number of threads."""
        try:
            from holdfast.databases.postgres import transactions_psycopg  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtra("psycopg", "postgres") from error
        is_kept, connection, born = not self._location.is_pooled, None, self._clock.monotonic()
        while self._spare and connection is None:
            connection, born = self._spare.pop()
            if connection.closed or self._is_old(born) or _has_unread(connection.fileno()):
                connection.close()
                connection, born = None, self._clock.monotonic()
        if connection is None:
            connection = transactions_psycopg.connect(self._location, self.name, self._server_settings)
        with transactions_psycopg.blocking(block, connection, is_kept=is_kept):
            yield connection
        if is_kept:
            transactions_psycopg.reset_session(connection, _RESET)
            self._spare.append((connection, born))

    async def close(self) -> None:
        while self._spare:
            self._spare.pop()[0].close()
        await super().close()

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self._of_parent.append(self.__dict__.pop("_spare", None))

    @cached_property
    def _spare(self) -> list[tuple[Any, float]]:
        return []

    async def _young(self, pool: Pool) -> Connection:
        while self._is_old(self._born[link := await pool.acquire()]) or _has_unread(file_of(link)):
            try:
                await hang_up(link, GOOD_BYE)
            finally:
                pool.discard(link)
        return link

    def _is_old(self, born: float) -> bool:
        return self._clock.monotonic() - born > KEPT

    async def _connect(self, *, is_checked: bool = False, **more: str) -> Connection:
        try:
            link = await self._dial({"application_name": self.name, **self._server_settings, **more})
        except failures.Errors as error:
            raise failures.connect_error(self._location.public, error) from error
        keep_alive(link)
        self._born[link] = self._clock.monotonic()
        return link


def _has_unread(file: int) -> bool:
    """Return whether the server has sent something that no statement asked for, most likely that it has ended the session."""
    ear = select.poll()
    ear.register(file, select.POLLIN)
    return bool(ear.poll(0))


async def _is_reset(link: Connection) -> bool:
    try:
        await link.execute(_RESET, timeout=GOOD_BYE)
    except failures.Errors:
        return False  # the block is committed all the same
    return True
