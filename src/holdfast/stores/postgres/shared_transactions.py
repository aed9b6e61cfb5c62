"""The verbs that share a transaction: jobs in a caller's transaction, and the check of a token in a handler's."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from functools import cached_property, partial
from typing import Any
from uuid import UUID

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob, Token
from holdfast.databases.caller_blocks import run_block
from holdfast.databases.postgres import errors as failures
from holdfast.databases.postgres.session_settings import KEPT_ALIVE
from holdfast.databases.postgres.transactions import TransactionTurns, awaited
from holdfast.errors import MissingExtra
from holdfast.stores.postgres import caller_transactions as within
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import results as answers
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.postgres.job_transaction import Transaction, close_within, open_within


class SharedTransactions(StoreDatabase):
    """Enqueue inside a caller's own transaction, and a handler's own rows with the check of its token."""

    def enqueue_within(
        self, connection: Any, call: UUID, jobs: Sequence[NewJob]
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        asked = packing.enqueue(call, jobs, is_durable=True, is_known=self._may_be_known(jobs))
        return self._send_within(connection, asked, jobs)

    def _send_within(
        self, connection: Any, asked: tuple[str, str], jobs: Sequence[NewJob], then: within.Question | None = None
    ) -> EnqueueAnswer | Coroutine[Any, Any, EnqueueAnswer]:
        """Send the query of an enqueue with its parameter on the caller's connection, and after it another statement."""
        (name, parameter), read = asked, partial(answers.enqueued, jobs=jobs)
        known = self._sql("connected_database"), self._sql("version")
        order = within.CallerEnqueue(*known, self._sql(name), parameter, read, then)
        return within.run_dialogue(connection, partial(self._known_connections.talk, order))

    @asynccontextmanager
    async def transaction(
        self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None
    ) -> AsyncIterator[Any]:
        transaction = self._transaction_of(job, token, idle, hook_due_at)
        async with self._turns.of_loop():
            try:
                async with asyncio.timeout(self._location.connect_timeout):
                    link = await self._dial({"application_name": self._name, **self._settings})
            except failures.Errors as error:
                raise failures.connect_error(self._location.public, error) from error
            async with awaited(transaction, link):
                yield link

    @contextmanager
    def blocking_transaction(self, job: UUID, token: Token, *, idle: float, hook_due_at: datetime | None = None) -> Iterator[Any]:
        try:
            from holdfast.databases.postgres import transactions_psycopg
        except ImportError as error:
            raise MissingExtra("psycopg", "postgres") from error
        transaction = self._transaction_of(job, token, idle, hook_due_at)
        with self._turns.of_threads:
            connection = transactions_psycopg.connect(self._location, self._name, self._settings)
            with transactions_psycopg.blocking(transaction, connection):
                yield connection

    def transaction_within(
        self, connection: Any, job: UUID, token: Token, *, idle: float
    ) -> AbstractAsyncContextManager[Any] | AbstractContextManager[Any]:
        transaction = self._transaction_of(job, token, idle, None)
        look = partial(self._known_connections.look, self._sql("connected_database"), self._sql("version"))
        talks = partial(open_within, transaction, look), partial(close_within, transaction)
        first, last = (partial(within.run_dialogue, connection, talk) for talk in talks)
        return run_block(within.block_of(connection), connection, first, last, transaction.lost)

    def after_fork_in_child(self) -> None:
        """Forget the turns in the child, where no transaction of the parent ever ends."""
        super().after_fork_in_child()
        self.__dict__.pop("_turns", None)

    @cached_property
    def _known_connections(self) -> within.KnownConnections:
        return within.KnownConnections(self._location, self._schema)

    @cached_property
    def _turns(self) -> TransactionTurns:
        return TransactionTurns()

    @property
    def _name(self) -> str:
        return f"holdfast transaction {self._process.host}-{self._process.pid}"[:63]

    @property
    def _settings(self) -> dict[str, str]:
        """The settings of a session that runs the user's code: the defaults, except for those that detect a vanished client."""
        return {} if self._location.is_pooled else {**KEPT_ALIVE, **self._server_settings}

    def _transaction_of(self, job: UUID, token: Token, idle: float, hook_due_at: datetime | None) -> Transaction:
        public, now = self._location.public, self._clock.monotonic
        return Transaction(job, token, idle=idle, hook_due_at=hook_due_at, text=self._sql, public=public, now=now)
