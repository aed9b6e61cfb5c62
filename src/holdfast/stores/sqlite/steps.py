"""The verbs of durable steps and signals on a file: each packs its values, runs its files of ``queries`` and maps the answer."""

from collections.abc import Sequence
from uuid import UUID

from holdfast._core.encoding import instant
from holdfast._core.job import PLACE_OF, Place, State, Token
from holdfast._core.steps import MOST_SIGNALS, Signal, SignalAnswer, SignalTaken, StepList, StepRecord
from holdfast._core.text import storable_text
from holdfast.databases.sqlite.connection_thread import ConnectionThread
from holdfast.databases.sqlite.values import Values
from holdfast.stores.sqlite.database import StoreDatabase


class StepVerbs:
    """The part of the store that has the verbs of ``_ports.steps.Steps``."""

    _thread: ConnectionThread[StoreDatabase]

    async def steps(self, job: UUID) -> StepList:
        found = await self._thread.run(lambda database: database.read("steps", job=job.bytes))
        records = tuple(
            StepRecord(name=name, nth=nth, place=place, is_sequential=bool(is_sequential), result=result)
            for _, name, nth, place, is_sequential, result in found
            if name is not None
        )
        return StepList(records, instant(found[0][0]))

    async def record_step(self, job: UUID, token: Token, record: StepRecord) -> bool:
        values = _named(job, token, record)

        def write(database: StoreDatabase) -> bool:
            is_new = database.write("record_step", **values, result=record.result) > 0
            return is_new or is_active(database, job, token)

        return await self._thread.run(write)

    async def take_signal(self, job: UUID, token: Token, name: str, record: StepRecord) -> SignalTaken:
        values = _named(job, token, record)

        def take(database: StoreDatabase) -> SignalTaken:
            database.write("take_signal", **values, signal=storable_text(name))
            if not is_active(database, job, token):
                return SignalTaken(is_lost=True)
            found = database.read("step", **values)
            return SignalTaken(found[0][0] if found else None)

        return await self._thread.run(take)

    async def signal(self, job: UUID, signal: Signal) -> SignalAnswer:
        values: Values = {
            "job": job.bytes,
            "call": signal.call.bytes,
            "signal": storable_text(signal.name),
            "value": signal.value,
        }

        def send(database: StoreDatabase) -> SignalAnswer:
            database.write("signal", **values, most=MOST_SIGNALS)
            ((is_kept, state),) = database.read("signal_answer", **values)
            if is_kept:
                return SignalAnswer.ACCEPTED
            if state is None:
                return SignalAnswer.MISSING
            return SignalAnswer.REFUSED if PLACE_OF[State(state)] is Place.FINISHED else SignalAnswer.FULL

        return await self._thread.run(send)

    async def job_with_key(self, task: str, unique_key: str) -> UUID | None:
        values: Values = {"task": task, "unique_key": storable_text(unique_key)}
        found = await self._thread.run(lambda database: database.read("job_with_key", **values))
        return UUID(bytes=found[0][0]) if found else None


def is_active(database: StoreDatabase, job: UUID, token: Token) -> bool:
    """Return whether the job is active under this token."""
    return bool(database.read("is_active", **_owned(job, token)))


def keep_steps(database: StoreDatabase, job: UUID, records: Sequence[StepRecord]) -> None:
    """Record steps of a job whose move the open transaction writes, too."""
    for record in records:
        database.write("keep_step", job=job.bytes, **_columns(record), result=record.result)


def _owned(job: UUID, token: Token) -> Values:
    claim = None if token.claim is None else token.claim.bytes
    return {"job": job.bytes, "claim_id": claim, "claim_number": token.number}


def _named(job: UUID, token: Token, record: StepRecord) -> Values:
    return {**_owned(job, token), **_columns(record)}


def _columns(record: StepRecord) -> Values:
    return {
        "step": storable_text(record.name),
        "nth": record.nth,
        "place": record.place,
        "is_sequential": record.is_sequential,
    }
