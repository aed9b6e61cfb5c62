"""Sessions for a user's own transactions, used again for a while: to begin one takes longer than to finish a batch."""

import select
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from asyncpg.pool import PoolConnectionProxy

from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.database import Database, keep_alive
from holdfast.databases.postgres.pool import Connection, Pool, file_of
from holdfast.databases.postgres.transactions import GOOD_BYE, UserTransaction, awaited
from holdfast.errors import MissingExtra

KEPT = 60.0
"""Seconds: by then what statements were planned for may have changed."""

_AFRESH = """
SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DISCARD TEMP; DISCARD SEQUENCES
"""


class Sessions(Database):
    """Nothing is set in them for longer than a transaction but what the URL and ``server_settings`` say, and what one leaves behind
    the next does not find."""

    @cached_property
    def _born(self) -> WeakKeyDictionary[Connection, float]:
        return WeakKeyDictionary()

    @property
    def name(self) -> str:
        """What the server calls them."""
        return f"holdfast rows {self._process.host}-{self._process.pid}"[:63]

    @asynccontextmanager
    async def run(self, block: UserTransaction) -> AsyncIterator[Connection]:
        """A block in one of them. Behind a pooler it is the pooler that keeps sessions."""
        pool, is_kept = self._here().shared, not self._location.is_pooled
        link = await self._young(pool)
        try:
            async with awaited(block, link, is_kept=is_kept):
                lent: Any = PoolConnectionProxy(None, link)  # type: ignore[arg-type]
                try:
                    yield lent
                finally:
                    lent._detach()  # what the block's code has left running must not speak in somebody else's transaction
            is_sound = is_kept and await _is_afresh(link)
        except BaseException:
            pool.discard(link)
            raise
        (pool.release if is_sound else pool.discard)(link)

    @contextmanager
    def run_blocking(self, block: UserTransaction) -> Iterator[Any]:
        """The same through psycopg, for any number of threads."""
        try:
            from holdfast.databases.postgres import transactions_psycopg  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtra("psycopg", "postgres") from error
        is_kept, connection, born = not self._location.is_pooled, None, self._clock.monotonic()
        while self._spare and connection is None:
            connection, born = self._spare.pop()
            if connection.closed or self._is_old(born) or _has_news(connection.fileno()):
                connection.close()
                connection, born = None, self._clock.monotonic()
        if connection is None:
            connection = transactions_psycopg.connect(self._location, self.name, self._server_settings)
        with transactions_psycopg.blocking(block, connection, is_kept=is_kept):
            yield connection
        if is_kept:
            transactions_psycopg.make_afresh(connection, _AFRESH)
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
        while self._is_old(self._born[link := await pool.acquire()]) or _has_news(file_of(link)):
            try:
                await link.close(timeout=GOOD_BYE)
            except failures.Errors:
                pass  # it is dropped anyway
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


def _has_news(file: int) -> bool:
    """Whether the server has said something that nobody has read yet: that it ends, and nobody has asked it anything."""
    ear = select.poll()
    ear.register(file, select.POLLIN)
    return bool(ear.poll(0))


async def _is_afresh(link: Connection) -> bool:
    try:
        await link.execute(_AFRESH, timeout=GOOD_BYE)
    except failures.Errors:
        return False  # the block is committed nevertheless
    return True
