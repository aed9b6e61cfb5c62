"""What people and programs do with queues: see them, pause them, empty them, set how they are served."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from holdfast._core.answers import QueueView
from holdfast._core.origin import Origin, overruled
from holdfast._core.queue_counts import MOST_COUNTED
from holdfast._core.requests import QueueSettings
from holdfast._core.text import shortened
from holdfast._engine.client.client import Client
from holdfast._engine.tasks.limits import problems_of_queue, problems_of_settings
from holdfast._engine.tasks.registry import NAME
from holdfast.errors import ConfigurationError
from holdfast.sync import blocking


class Queues:
    """``app.queues``: list, pause, resume, purge and set queues. A queue exists while it has jobs, is paused or has settings."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect

    async def alist(self) -> list[QueueView]:
        """Return the queues that have jobs, are paused or have settings, by name.

        Of more than 100,000 completed, failed or cancelled jobs in all queues, some stores count only the first ones: ``capped``.
        """
        return list(await self._connect().queues(MOST_COUNTED))

    async def apause(self, queues: str | Sequence[str]) -> None:
        """Stop all claims from these queues; jobs that run go on."""
        await self._connect().pause(queue_names(queues), is_paused=True)

    async def aresume(self, queues: str | Sequence[str]) -> None:
        """Let workers claim from these queues again."""
        await self._connect().pause(queue_names(queues), is_paused=False)

    async def apurge(self, queues: str | Sequence[str]) -> int:
        """Delete every job that waits in these queues, also those due later; return how many.

        Jobs that run or are held stay, and so do those enqueued after the call.
        """
        return await self._connect().purge(queue_names(queues))

    async def aset(
        self,
        name: str,
        *,
        priority: int | None = None,
        weight: int | None = None,
        key_weights: Mapping[str, int] | None = None,
    ) -> QueueSettings:
        """Set how a queue is served; return all of it. What is not given stays as it is, also the weights of other keys.

        The settings then stay through new releases: code does not change them back until ``unset``. ``priority`` is added to that of
        each job, also of those that wait. ``weight``: the jobs of a turn, which ``key_weights`` multiplies; 1 is the default.
        ``ConfigurationError`` with every problem found.

        >>> app.queues.set("mail", priority=-10, weight=3, key_weights={"acme": 3})  # doctest: +SKIP
        """
        given = {"priority": priority, "weight": weight, "key_weights": key_weights}
        chosen = {option: value for option, value in given.items() if value is not None}
        problems = [
            *problems_of_queue(name),
            *problems_of_settings(**{"priority": 0, "weight": 1, "key_weights": None, **chosen}),
        ]
        if not chosen:
            problems.append("pass priority=, weight= or key_weights=")
        if problems:
            raise ConfigurationError([f"queue {shortened(str(name))}: {problem}" for problem in problems])
        client = self._connect()
        old = next((queue.settings for queue in await client.queues() if queue.name == name), QueueSettings())
        weights = {key: number for key, number in {**old.key_weights, **(key_weights or {})}.items() if number != 1}
        origin = overruled(structs.replace(old, origin=Origin()), old.origin)
        new = structs.replace(old, **{**chosen, "key_weights": weights, "origin": origin})
        await client.set_queue(name, new)
        return new

    async def aunset(self, name: str) -> None:
        """Remove the settings of a queue. A worker whose code declares some stores those within a minute."""
        if problems := problems_of_queue(name):
            raise ConfigurationError([f"queue {shortened(str(name))}: {problem}" for problem in problems])
        await self._connect().set_queue(name, None)

    list = blocking(alist)
    set = blocking(aset)
    unset = blocking(aunset)
    pause = blocking(apause)
    resume = blocking(aresume)
    purge = blocking(apurge)


def queue_names(queues: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of queues; ``ConfigurationError`` for those that no queue can have."""
    names = (queues,) if isinstance(queues, str) else tuple(queues)
    wrong = [name for name in names if not isinstance(name, str) or not NAME.fullmatch(name)]
    if wrong:
        raise ConfigurationError([f"queue={shortened(repr(name))}: use 1 to 200 letters, digits and _ . : -" for name in wrong])
    return names
