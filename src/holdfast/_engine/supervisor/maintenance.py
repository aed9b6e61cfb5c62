"""The steps of a supervisor beside beating, watching and recovering; no caller waits for any of them."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from holdfast._engine.environment import Environment
from holdfast._engine.supervisor.pruner import Pruner
from holdfast._engine.supervisor.recovery import EXPIRED_PER_STEP, Recovery
from holdfast._engine.supervisor.republisher import Republisher
from holdfast._engine.supervisor.unknown_tasks import UnknownTasks
from holdfast._engine.supervisor.unseen_queues import UnseenQueues

SHORTEST_PAUSE = 0.1
Step = Callable[[], Coroutine[Any, Any, float]]


def maintenance_steps(
    environment: Environment,
    recovery: Recovery,
    *,
    tasks: Callable[[], Sequence[str]],
    queues: Callable[[], Sequence[str] | None],
    named: Callable[[], Sequence[str]],
    interval: float,
) -> list[tuple[str, Step]]:
    """Return the maintenance steps, each with its name."""
    store, events, transport = environment.store, environment.events, environment.transport
    unknown = UnknownTasks(store, known=tasks, now=environment.lease_time, events=events)
    pruner = Pruner(store, events=events, chance=environment.chance)

    async def expire() -> float:
        return SHORTEST_PAUSE if await recovery.expire() >= EXPIRED_PER_STEP else interval

    steps: list[tuple[str, Step]] = [("expire", expire), ("strays", unknown.step), ("prune", pruner.step)]
    steps.append(("queues", UnseenQueues(store, served=queues, named=named, events=events).step))
    if transport.deliveries is not None:
        sweep = Republisher(store, transport.deliveries, tasks=tasks, queues=queues, interval=interval, events=events)
        steps.append(("sweep", sweep.step))
    return steps
