"""The checks of a worker that starts: its App must fit its store and its tables."""

import asyncio
from collections.abc import Sequence

from holdfast._core.table_spec import RowsSettings
from holdfast._engine.error_text import described
from holdfast._engine.events import Events, failure_of_store
from holdfast._engine.rows.tables import Tables
from holdfast._engine.store_defaults import has_schedules, offers
from holdfast._engine.tasks.registry import Registry
from holdfast._engine.worker.rescue_hooks import problems_of_hooks
from holdfast._ports.store import Lanes, Limits, Store
from holdfast.errors import ConfigurationError


async def require_startup_checks(
    registry: Registry, tables: Tables | None, store: Store, events: Events, *, timeout: float
) -> None:
    """Raise ``ConfigurationError`` with every problem found."""
    problems = [
        *problems_of_hooks(registry, store),
        *problems_of_schedules(registry, store),
        *problems_of_limits(registry, store),
    ]
    if tables is not None:
        problems = [*problems, *await problems_of_tables(registry.rows_tasks(), tables, events, timeout=timeout)]
    if problems:
        raise ConfigurationError(problems)


def problems_of_schedules(registry: Registry, store: Store) -> list[str]:
    """Return the schedules that this store cannot keep."""
    if not registry.schedules() or has_schedules(store):
        return []
    names = ", ".join(each.name for each in registry.schedules())
    return [f"schedules {names}: the {store.capabilities.name} store keeps none: use one that does, such as sqlite:///jobs.db"]


def problems_of_limits(registry: Registry, store: Store) -> list[str]:
    """Return the limits and settings of queues that this store cannot keep."""
    declared, name, remedy = registry.declared(), store.capabilities.name, "use one that does, such as sqlite:///jobs.db"
    found = []
    if declared.limits and not offers(store, Limits):
        which = ", ".join(str(each.scope) for each in declared.limits)
        found.append(f"limits of {which}: the {name} store keeps none: {remedy}")
    if declared.queues and not offers(store, Lanes):
        which = ", ".join(each.name for each in declared.queues)
        found.append(f"queues {which}: the {name} store keeps no settings of queues: {remedy}")
    return found


async def problems_of_tables(rows: Sequence[RowsSettings], tables: Tables, events: Events, *, timeout: float) -> list[str]:
    """Return the problems of tables whose database answers within ``patience`` seconds; runs on the others inspect them again."""

    async def look(settings: RowsSettings) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                await tables.verified(settings)
        except ConfigurationError as error:
            return error.problems
        except Exception as error:
            events.emit(failure_of_store(error), operation=f"inspect {settings.task}", error=described(error), failures=1)
        return []

    return [problem for found in await asyncio.gather(*map(look, rows)) for problem in found]
