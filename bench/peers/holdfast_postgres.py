"""Holdfast on PostgreSQL."""

from __future__ import annotations

from importlib.metadata import version
from typing import Self

from bench.peers import Place
from bench.peers.holdfast import Holdfast
from bench.peers.looking import Looking
from holdfast._core.job import State

_DUE = "FROM holdfast.pending WHERE task = 'noop' AND state = 'available' AND available_at <= clock_timestamp()"
_IS_BUSY = f"SELECT EXISTS (SELECT {_DUE}) OR EXISTS (SELECT FROM holdfast.active)"  # noqa: S608 - constants
_FIRST = f"SELECT id {_DUE} ORDER BY queue, priority, available_at, id LIMIT 1"

_SEED_WAITING = """
INSERT INTO holdfast.pending (id, task, queue, priority, available_at, created_at, policy, payload)
SELECT
    gen_random_uuid(), CASE WHEN n %% 2 = 1 THEN 'unknown' ELSE 'noop' END, 'default', 0,
    now() + CASE WHEN n %% 2 = 1 THEN interval '0' ELSE interval '1 day' END, now(), '{}', convert_to(format('{"n":%%s}', n), 'UTF8')
FROM generate_series(1, %s) AS series (n)
"""
_SEED_FINISHED = """
INSERT INTO holdfast.finished (
    id, delete_after, delete_day, state, claim_id, claim_number, worker, task, queue, priority, cancel_requested, attempt,
    failures, crashes, created_at, available_at, claimed_at, started_at, finished_at, policy, payload, result
)
SELECT
    gen_random_uuid(), now() + interval '7 days', ((now() + interval '7 days') AT TIME ZONE 'UTC')::date, 'completed',
    gen_random_uuid(), nextval('holdfast.claim_numbers'), 'host-1234-abcdef', 'noop', 'default', 0, false, 1, 0, 0, now(),
    now(), now(), now(), now(), '{}', convert_to(format('{"n":%%s}', n), 'UTF8'), convert_to('null', 'UTF8')
FROM generate_series(1, %s) AS series (n)
"""
_SEED_RECEIPTS = "INSERT INTO holdfast.receipts (call, received_at) SELECT gen_random_uuid(), now() FROM generate_series(1, %s)"


class HoldfastOnPostgres(Holdfast):
    """A database."""

    concurrency = 1000

    def __init__(self, place: Place) -> None:
        super().__init__(place, place.url)
        self._looking = Looking(place.url)

    @classmethod
    def settings(cls) -> str:
        return cls.about(f"asyncpg {version('asyncpg')}")

    @classmethod
    async def on(cls, place: Place) -> Self:
        return await cls(place).prepare()

    def waiting(self) -> int:
        return int(self._looking.ask(f"SELECT count(*) {_DUE}"))

    def first(self) -> object:
        return self._looking.ask(_FIRST)

    def has_begun(self, first: object) -> bool:
        return not self._looking.ask("SELECT EXISTS (SELECT FROM holdfast.pending WHERE id = %s)", first)

    def is_drained(self) -> bool:
        return not self._looking.ask(_IS_BUSY)

    async def close(self) -> None:
        self._looking.close()
        await super().close()

    def seed(self, state: State, count: int) -> None:
        """Write ``count`` jobs that no worker will run now: finished; or waiting, half for tomorrow, half for an unknown task.

        Each has been enqueued by a separate call.
        """
        self._looking.do(_SEED_WAITING if state is State.AVAILABLE else _SEED_FINISHED, count)
        self._looking.do(_SEED_RECEIPTS, count)
        self._looking.do("VACUUM (ANALYZE)")
        self._looking.do("CHECKPOINT")
