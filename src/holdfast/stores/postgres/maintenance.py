"""The verbs of maintenance: pruning, pausing queues, and migrating the schema."""

from collections.abc import Sequence

from msgspec import structs

from holdfast._core.answers import Pruned, Vitals
from holdfast._core.audit import AuditNote
from holdfast._core.policy import RETENTION_FLOOR
from holdfast._core.requests import QueueSettings
from holdfast._core.text import storable_text
from holdfast.stores.postgres import parameters as packing
from holdfast.stores.postgres import schema
from holdfast.stores.postgres.members import MemberMoves
from holdfast.stores.postgres.partitions import Partitions
from holdfast.stores.postgres.roles import Roles


class Maintenance(Partitions, Roles, MemberMoves):
    """The part of the store that has the verbs of maintenance in ``_ports.store``."""

    async def pause(self, queues: Sequence[str], *, is_paused: bool, by: AuditNote | None = None) -> None:
        names = [storable_text(queue) for queue in queues]
        await self._fetch_by(by, len, "pause" if is_paused else "unpause", names)

    async def set_queue(self, queue: str, settings: QueueSettings | None, *, by: AuditNote | None = None) -> None:
        await self._search("set_queue", *packing.queue_settings(queue, settings), by=by)

    async def prune(self, limit: int) -> Pruned:
        ((*numbers, today, passed, last, flows),) = await self._fetch("prune", limit, round(RETENTION_FLOOR * 1e6))
        pruned = Pruned(*numbers)
        jobs, attempts = await self._tidy_partitions(today, passed, last, limit)
        members, stubs = await self._prune_flows(flows, limit) if flows else (0, 0)
        jobs, stubs = pruned.jobs + jobs + members, pruned.stubs + stubs
        return structs.replace(pruned, jobs=jobs, stubs=stubs, attempts=pruned.attempts + attempts)

    async def vitals(self) -> Vitals:
        ((version, lag),) = await self._fetch("vitals", round(RETENTION_FLOOR * 1e6))
        return Vitals(version, lag)

    async def migrate(self) -> tuple[int, int]:
        async with self._own_connection(is_checked=False, **schema.PATIENT) as connection:
            answer = await schema.migrate(connection, self._schema, self._location.public, self._placed)
            await connection.execute(
                self._placed("SELECT holdfast.make_partitions((clock_timestamp() AT TIME ZONE 'UTC')::date)")
            )
            return answer
