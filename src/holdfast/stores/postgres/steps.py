"""The verbs of durable steps and signals: each packs its values, runs its file of ``queries`` and maps the answer."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from holdfast._core.job import Token
from holdfast._core.steps import MOST_SIGNALS, Signal, SignalAnswer, SignalTaken, StepList, StepRecord
from holdfast._core.text import storable_text
from holdfast.stores.postgres.database import StoreDatabase


class StepVerbs(StoreDatabase):
    """The part of the store that has the verbs of ``_ports.steps.Steps``."""

    async def steps(self, job: UUID) -> StepList:
        found = await self._fetch("steps", job)
        records = (
            StepRecord(
                name=row["name"], nth=row["nth"], place=row["place"], is_sequential=row["is_sequential"], result=row["result"]
            )
            for row in found
            if row["name"] is not None
        )
        return StepList(tuple(records), found[0]["now"])

    async def record_step(self, job: UUID, token: Token, record: StepRecord) -> bool:
        return bool(await self._fetch("record_step", *_named(job, token), *_columns(record), record.result))

    async def take_signal(self, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        ((is_mine, result),) = await self._fetch("take_signal", *_named(job, token), storable_text(name), *_columns(record))
        return SignalTaken(result) if is_mine else SignalTaken(is_lost=True)

    async def signal(self, job: UUID, signal: Signal) -> SignalAnswer:
        values = (job, signal.call, storable_text(signal.name), signal.value, MOST_SIGNALS)
        while (answer := (await self._fetch("signal", *values))[0]["answer"]) is None:
            pass  # the job moved during the statement: the next one sees where to
        return SignalAnswer(answer)

    async def job_with_key(self, task: str, unique_key: str) -> UUID | None:
        found = await self._fetch("job_with_key", storable_text(task), storable_text(unique_key))
        return found[0]["job"] if found else None


def arrays_of(records: Sequence[StepRecord]) -> tuple[list[Any], ...]:
    """Return the parameters of ``keep_steps.sql``, except the job."""
    columns = [(*_columns(record), record.result) for record in records]
    return tuple(map(list, zip(*columns, strict=True)))


def _named(job: UUID, token: Token) -> tuple[Any, ...]:
    return job, token.claim, token.number


def _columns(record: StepRecord) -> tuple[Any, ...]:
    return storable_text(record.name), record.nth, record.place, record.is_sequential
