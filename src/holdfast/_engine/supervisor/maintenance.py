"""The steps of a supervisor beside beating, watching and recovering; no caller waits for any of them."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from holdfast._engine.events import Events
from holdfast._engine.supervisor.pruner import Pruner
from holdfast._engine.supervisor.recovery import EXPIRED_PER_STEP, Recovery
from holdfast._engine.supervisor.republisher import Republisher
from holdfast._engine.supervisor.unknown_tasks import UnknownTasks
from holdfast._ports.clock import Randomness
from holdfast._ports.store import Store
from holdfast._ports.transport import Transport

SHORTEST_PAUSE = 0.1
Step = Callable[[], Coroutine[Any, Any, float]]


def maintenance_steps(
    store: Store,
    transport: Transport,
    recovery: Recovery,
    *,
    tasks: Callable[[], Sequence[str]],
    queues: Callable[[], Sequence[str] | None],
    interval: float,
    now: Callable[[], float],
    events: Events,
    chance: Randomness,
) -> list[tuple[str, Step]]:
    """Return the maintenance steps, each with its name."""
    unknown = UnknownTasks(store, known=tasks, now=now, events=events)
    pruner = Pruner(store, events=events, chance=chance)

    async def expire() -> float:
        return SHORTEST_PAUSE if await recovery.expire() >= EXPIRED_PER_STEP else interval

    steps: list[tuple[str, Step]] = [("expire", expire), ("strays", unknown.step), ("prune", pruner.step)]
    if transport.deliveries is not None:
        sweep = Republisher(store, transport.deliveries, tasks=tasks, queues=queues, interval=interval, events=events)
        steps.append(("sweep", sweep.step))
    return steps
