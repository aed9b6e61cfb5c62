"""What people and programs do with limits: see how much of them is used, set them, clear them."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from holdfast._core.limits import Holder, Limit, LimitView, Scope, ScopeKind
from holdfast._core.origin import Origin, overruled
from holdfast._core.schedule import Source
from holdfast._engine.client.client import Client
from holdfast._engine.tasks.option_problems import problems_of_limit
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError
from holdfast.sync import blocking

ScopeWord = Literal["cluster", "task", "queue"]
KINDS: Final[dict[str, ScopeKind]] = {"cluster": ScopeKind.ALL, "task": ScopeKind.TASK, "queue": ScopeKind.QUEUE}
WORDS: Final = {kind: word for word, kind in KINDS.items()}


class LimitStatus(Struct, frozen=True, kw_only=True):
    """A limit as people see it. ``scope``: cluster, task or queue; ``name``: of the task or queue, else empty.

    ``active``: the jobs that it counts now; ``holders``: those that were claimed first. ``wait``: the seconds until its rate allows
    the next start. ``source``: code leaves alone what an operator has set.
    """

    scope: str
    name: str
    limit: Limit
    active: int = 0
    wait: float = 0.0
    holders: tuple[Holder, ...] = ()
    source: Source = Source.OPERATOR

    @classmethod
    def of(cls, view: LimitView) -> "LimitStatus":
        """Return the status of a limit as the store has it."""
        return cls(
            scope=WORDS[view.scope.kind],
            name=view.scope.name,
            limit=view.limit,
            active=view.active,
            wait=view.wait,
            holders=view.holders,
            source=view.origin.source,
        )


class Limits:
    """``app.limits``: the limits in the store, from code and from operators."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def alist(self) -> list[LimitStatus]:
        """Return all limits, each with what is used of it: that of the cluster, then those of queues and tasks, by name.

        ``Unsupported`` if the store keeps none.
        """
        return [LimitStatus.of(view) for view in await self._connect().limits()]

    async def aset(self, scope: ScopeWord, name: str | Limit | None = None, limit: Limit | None = None) -> LimitStatus:
        """Set the limit of a task, of a queue or of the cluster, which has no name. It then stays through new releases of the code.

        It counts in each claim from now on; jobs that run go on. ``ConfigurationError`` with every problem found.

        >>> app.limits.set("queue", "mail", Limit(concurrency=10, rate="100/m"))  # doctest: +SKIP
        >>> app.limits.set("cluster", Limit(concurrency=500))  # doctest: +SKIP
        """
        if isinstance(name, Limit) and limit is None:
            name, limit = None, name
        problems = [*_problems_of_scope(scope, name), *problems_of_limit(limit, is_optional=False)]
        if problems or limit is None:
            raise ConfigurationError(problems)
        chosen, client = _scope(scope, name), self._connect()
        old = await self._find(chosen)
        origin = Origin() if old is None else overruled(old.limit, old.origin)
        await client.set_limit(chosen, limit, origin)
        return LimitStatus.of(await self._find(chosen) or LimitView(scope=chosen, limit=limit, origin=origin))

    async def aclear(self, scope: ScopeWord, name: str | None = None) -> None:
        """Remove a limit, and forget its rates. A worker whose code declares one stores it again within a minute.

        To lift a limit that is in the code, set a higher one.
        """
        if problems := _problems_of_scope(scope, name):
            raise ConfigurationError(problems)
        chosen = _scope(scope, name)
        if await self._find(chosen) is None:
            raise ConfigurationError([f"limit of {chosen}: there is none; see `holdfast limits list`"])
        await self._connect().set_limit(chosen, None, Origin())

    list = blocking(alist)
    set = blocking(aset)
    clear = blocking(aclear)

    async def _find(self, scope: Scope) -> LimitView | None:
        return next((view for view in await self._connect().limits() if view.scope == scope), None)


def _scope(word: str, name: object) -> Scope:
    return Scope(KINDS[word], str(name or ""))


def _problems_of_scope(word: object, name: object) -> list[str]:
    if not isinstance(word, str) or word not in KINDS:
        return [f"scope={word!r}: use 'cluster', 'task' or 'queue'"]
    if word == "cluster":
        return [] if name in (None, "") else [f"name={name!r}: the cluster has no name; leave it out, or use 'task' or 'queue'"]
    return problems_of_names(name, "-", 0)
