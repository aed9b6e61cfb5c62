"""What a worker can only find out at its start: whether its store and its tables fit what its App was told."""

import asyncio
from collections.abc import Sequence

from holdfast._engine.error_text import described
from holdfast._engine.events import Events, failure_of_store
from holdfast._engine.rows.tables import Watched
from holdfast._engine.tasks.registry import Registry
from holdfast._engine.worker.rescue_hooks import problems_of_hooks
from holdfast._ports.store import Capabilities
from holdfast.errors import ConfigurationError


async def require_fitting(registry: Registry, capabilities: Capabilities, events: Events, *, patience: float) -> None:
    """``ConfigurationError`` with everything that does not."""
    tables = await problems_of_tables(registry.watched(), events, patience=patience)
    if problems := [*problems_of_hooks(registry, capabilities), *tables]:
        raise ConfigurationError(problems)


async def problems_of_tables(watched: Sequence[Watched], events: Events, *, patience: float) -> list[str]:
    """Of those whose database answers soon: one that is away must hurt nobody but its own runs, which look again."""

    async def look(each: Watched) -> list[str]:
        try:
            async with asyncio.timeout(patience):
                await each.tables.sound(each.settings)
        except ConfigurationError as error:
            return error.problems
        except Exception as error:
            text = described(error)
            events.emit(failure_of_store(error), operation=f"inspect {each.settings.task}", error=text, failures=1)
        return []

    return [problem for found in await asyncio.gather(*map(look, watched)) for problem in found]
