"""For ``app.queue(…)`` and ``app.limit(…)``: what a user writes about queues and limits, checked."""

from collections.abc import Mapping
from typing import Final

from holdfast._core.declared import DeclaredQueue
from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.requests import QueueSettings
from holdfast._core.text import shortened
from holdfast._engine.tasks.option_problems import problems_of_limit
from holdfast._engine.tasks.options import TEXT_LIMIT
from holdfast._engine.tasks.registry import NAME, Registry
from holdfast.errors import ConfigurationError

MOST_PRIORITY: Final = 1_000_000
"""The most that a queue adds to the priority of its jobs, so that the sum fits into 32 bits."""
MOST_WEIGHT: Final = 1_000


def declare_queue(
    registry: Registry,
    name: str,
    priority: int,
    weight: int,
    *,
    limit: Limit | None,
    key_weights: Mapping[str, int] | None,
) -> None:
    """Check what the user wrote about a queue, and register it; ``ConfigurationError`` with every problem found."""
    problems = [*problems_of_queue(name), *problems_of_settings(priority, weight, key_weights), *problems_of_limit(limit)]
    if problems:
        raise ConfigurationError([f"queue {shortened(str(name))}: {problem}" for problem in problems])
    settings = QueueSettings(priority=priority, weight=weight, key_weights=dict(key_weights or {}))
    registry.add_queue(DeclaredQueue(name, settings))
    if limit is not None:
        registry.add_limit(Scope(ScopeKind.QUEUE, name), limit)


def declare_limit(registry: Registry, limit: Limit) -> None:
    """Check what the user wrote about the limit of all jobs, and register it; ``ConfigurationError`` with every problem found."""
    if problems := problems_of_limit(limit, is_optional=False):
        raise ConfigurationError(problems)
    registry.add_limit(Scope(ScopeKind.ALL), limit)


def problems_of_queue(name: object) -> list[str]:
    """Return what is wrong with the name of a queue."""
    if isinstance(name, str) and NAME.fullmatch(name):
        return []
    return [f"name={shortened(repr(name))}: use 1 to 200 letters, digits and _ . : -"]


def problems_of_settings(priority: object, weight: object, key_weights: object) -> list[str]:
    """Return what is wrong with the settings of a queue, one sentence each."""
    found = []
    if type(priority) is not int or abs(priority) > MOST_PRIORITY:
        found.append(f"priority={priority!r}: use an integer from -{MOST_PRIORITY:_} to {MOST_PRIORITY:_}; smaller runs sooner")
    if not _is_weight(weight):
        found.append(f"weight={weight!r}: use an integer from 1 to {MOST_WEIGHT}; a lane with 3 gets three jobs a turn")
    if key_weights is None:
        return found
    if not isinstance(key_weights, Mapping):
        return [*found, f"key_weights={key_weights!r}: use a dict such as {{'acme': 3}}"]
    for key, number in key_weights.items():
        if not isinstance(key, str) or not 1 <= len(key) <= TEXT_LIMIT:
            found.append(f"key_weights: {key!r} is not a key: use a string of 1 to {TEXT_LIMIT} characters")
        if not _is_weight(number):
            found.append(f"key_weights: {key!r} has {number!r}: use an integer from 1 to {MOST_WEIGHT}")
    return found


def _is_weight(number: object) -> bool:
    return type(number) is int and 1 <= number <= MOST_WEIGHT
