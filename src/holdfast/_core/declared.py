"""Limits and settings of queues in the code of an App: as a worker's lease lists them, and which of them a supervisor stores."""

from msgspec import Struct, structs

from holdfast._core.limits import Limit, LimitView, Scope
from holdfast._core.origin import Origin, declaration, declared, may_declare
from holdfast._core.requests import QueueSettings


class DeclaredLimit(Struct, frozen=True):
    """A limit in the code of an App."""

    scope: Scope
    limit: Limit

    @property
    def declaration(self) -> str:
        """Its entry in the list of a worker's lease."""
        return declaration(self._name, self.limit)

    def origin_over(self, old: LimitView | None, living: frozenset[str]) -> Origin | None:
        """Return the origin with which it replaces the present limit; None if that one stays."""
        limit, origin = (None, Origin()) if old is None else (old.limit, old.origin)
        return declared(self.limit, limit, origin) if may_declare(self._name, self.limit, limit, origin, living) else None

    @property
    def _name(self) -> str:
        return f"limit/{self.scope.kind}/{self.scope.name}"  # no name of a schedule has a slash


class DeclaredQueue(Struct, frozen=True):
    """The settings of a queue in the code of an App, without an origin."""

    name: str
    settings: QueueSettings

    @property
    def declaration(self) -> str:
        """Its entry in the list of a worker's lease."""
        return declaration(self._name, self.settings)

    def origin_over(self, old: QueueSettings, living: frozenset[str]) -> Origin | None:
        """Return the origin with which it replaces the present settings; None if those stay. Defaults make no settings."""
        if old == QueueSettings():
            return None if self.settings == old else declared(self.settings, None, old.origin)
        plain = structs.replace(old, origin=Origin())
        is_new = may_declare(self._name, self.settings, plain, old.origin, living)
        return declared(self.settings, plain, old.origin) if is_new else None

    @property
    def _name(self) -> str:
        return f"queue/{self.name}"


class Declared(Struct, frozen=True):
    """The limits and the settings of queues in the code of an App. ``named``: all queues that it names, those of its tasks, too."""

    limits: tuple[DeclaredLimit, ...] = ()
    queues: tuple[DeclaredQueue, ...] = ()
    named: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.limits or self.queues)

    @property
    def declarations(self) -> tuple[str, ...]:
        """The entries in the list of a worker's lease."""
        return (*(each.declaration for each in self.limits), *(each.declaration for each in self.queues))
