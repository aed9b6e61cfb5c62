"""The verbs of limits."""

from holdfast._core.audit import AuditNote
from holdfast._core.limits import MOST_HOLDERS, Limit, LimitView, Scope
from holdfast._core.origin import Origin
from holdfast._core.text import json_text, storable_text
from holdfast.stores.postgres import limit_uses as uses
from holdfast.stores.postgres.claiming import Claiming


class LimitVerbs(Claiming):
    """The part of the store that has the verbs of ``Limits`` in ``_ports.store``."""

    async def limits(self, key: str | None = None) -> tuple[LimitView, ...]:
        holding = await self._fetch("limit_holders", MOST_HOLDERS, storable_text(key))
        return uses.views_of(holding, await self._fetch("limit_uses") if holding else (), key)

    async def set_limit(self, scope: Scope, limit: Limit | None, origin: Origin, *, by: AuditNote | None = None) -> None:
        named = scope.kind.value, storable_text(scope.name)
        if limit is None:
            await self._fetch_by(by, len, "remove_limit", *named)
            await self._fetch("remove_rates", *named)
        else:
            await self._fetch_by(by, lambda _: 1, "set_limit", *named, json_text(limit), json_text(origin))
        ((self._has_limits,),) = await self._fetch("mark_counted", True)
