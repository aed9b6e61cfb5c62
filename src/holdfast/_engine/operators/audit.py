"""``app.audit``: what operators did, and in whose name this program acts."""

from contextlib import AbstractContextManager
from uuid import UUID

from holdfast._core.audit import AuditEntry, AuditFilter
from holdfast._engine.client.acting import Acting, acting
from holdfast._engine.client.connections import Connections
from holdfast.errors import ConfigurationError
from holdfast.sync import blocking


class Audit:
    """``app.audit``: see who cancelled, retried, deleted, paused or set what, when and why."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def alist(
        self, *, action: str | None = None, who: str | None = None, limit: int = 100, before: UUID | str | None = None
    ) -> list[AuditEntry]:
        """Return the actions of the last 90 days, newest first. ``before``: the id of the last action of the page before.

        ``Unsupported`` if the store remembers none.

        >>> app.audit.list(action="purge", limit=1)[0].who  # doctest: +SKIP
        'anna'
        """
        if type(limit) is not int or limit < 1:
            raise ConfigurationError([f"limit={limit!r}: use an integer from 1"])
        try:
            last = UUID(before) if isinstance(before, str) else before
        except ValueError:
            raise ConfigurationError([f"before={before!r}: use the id of an action"]) from None
        return [*await self._connections.client().audits(AuditFilter(action=action, who=who, limit=limit, before=last))]

    def acting(
        self,
        *,
        who: str = "app",
        origin: str = "app",
        reason: str | None = None,
        selector: str | None = None,
        up_to: str | None = None,
        operation: UUID | None = None,
    ) -> AbstractContextManager[None]:
        """Record what is done inside in this name, with this reason.

        ``selector``: the target as JSON, and ``up_to``: the newest job the person saw, in place of what the verb knows.
        ``operation``: of ``new_operation``; verbs with one operation are one action, whose count they add up.

        >>> with app.audit.acting(who="anna", reason="the provider is down"):  # doctest: +SKIP
        ...     app.queues.pause("mail")
        """
        return acting(
            Acting(who=who, origin=origin, reason=reason, selector=selector, up_to=up_to, operation=operation),
        )

    def new_operation(self) -> UUID:
        """Return the id of an operation, which may take several calls."""
        return self._connections.chance.uuid7()

    list = blocking(alist)
