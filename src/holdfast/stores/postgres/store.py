"""The PostgreSQL store, composed of its parts, and its check."""

from holdfast._core.answers import Check
from holdfast._ports.trial import stuck, try_out
from holdfast.databases.postgres.pool import Connection
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.stores.postgres import checks
from holdfast.stores.postgres.audits import AuditVerbs
from holdfast.stores.postgres.dependents import DependentVerbs
from holdfast.stores.postgres.history import HistoryVerbs
from holdfast.stores.postgres.leases import Leases
from holdfast.stores.postgres.limits import LimitVerbs
from holdfast.stores.postgres.maintenance import Maintenance
from holdfast.stores.postgres.moves import Moves
from holdfast.stores.postgres.reading import Reading
from holdfast.stores.postgres.rehearsal import HURRIED, OneTransaction
from holdfast.stores.postgres.schedules import ScheduleVerbs
from holdfast.stores.postgres.steps import StepVerbs
from holdfast.stores.postgres.workflows import WorkflowVerbs


class PostgresStore(
    Moves,
    AuditVerbs,
    HistoryVerbs,
    LimitVerbs,
    Leases,
    Reading,
    Maintenance,
    ScheduleVerbs,
    StepVerbs,
    WorkflowVerbs,
    DependentVerbs,
):
    """Jobs in one schema of a PostgreSQL database; the first use opens the first connection."""

    async def check(self) -> tuple[Check, ...]:
        schema, public = self._schema, self._location.public
        try:
            async with self._own_connection(is_checked=False) as link:
                async with link.transaction(readonly=True, isolation="read_committed"):
                    found = await checks.check(link, schema, public, self._sql, self._clock.wall)
                if checks.may_be_written(found):
                    found.append(await self._try_out(link))
                return tuple(found)
        except ConfigurationError as error:
            return (Check("error", "server", str(error), "correct what is named"),)
        except HoldfastError as error:
            return (Check("error", "server", str(error), "see that the server is up and can be reached"),)

    async def _try_out(self, link: Connection) -> Check:
        transaction, rehearsal = link.transaction(isolation="read_committed"), Rehearsal(self, link)
        await transaction.start()
        try:
            await link.execute(HURRIED)
            found = await try_out(rehearsal, self._chance, self._process)
            if found.level == "ok":
                await rehearsal.end()
        except HoldfastError as error:
            return stuck("commit", error)
        finally:
            await transaction.rollback()
        return found


class Rehearsal(OneTransaction, PostgresStore):
    """The same store on one connection, in a transaction that is open there."""
