"""The lanes of a world: queues and keys of its jobs, limits, weights, and what an operator does to them."""

import random
from collections.abc import Sequence

from msgspec import Struct, structs

from holdfast._core.limits import Limit, Scope, ScopeKind
from holdfast._core.requests import QueueSettings
from proof.search.decisions import Operation

SHARE = 0.12  # of the worlds that may have some
MOST_BACKLOG = 200  # each claim is judged by all jobs that wait
OPERATIONS = ("set_limit", "set_limit", "set_limit", "clear_limit", "set_queue", "clear_queue")
QUEUES = ("default", "slow", "mail", "news")
KEYS = ("", "acme", "zoo", "é", "b")
CONCURRENCY = (1, 1, 2, 3, 5)


class LanesPlan(Struct, frozen=True, kw_only=True):
    """The lanes of a world. ``has_operator``: an operator changes limits and settings at random; without one, they are set once.

    ``jobs``: how many clients enqueue, more than in other worlds, so that lanes are full. ``limits``: one for each scope.
    ``settings``: one for each queue.
    """

    queues: tuple[str, ...]
    keys: tuple[str, ...]
    jobs: int = 40
    limits: tuple[tuple[Scope, Limit], ...] = ()
    settings: tuple[QueueSettings, ...] = ()
    has_operator: bool = False

    @property
    def counts_tasks(self) -> bool:
        """Whether jobs of one lane may be counted by different limits."""
        return any(scope.kind is ScopeKind.TASK for scope, _ in self.limits)

    def lane(self, numbers: random.Random, queue: str) -> tuple[str, str]:
        """Return the queue and the key of a job; ``queue``: that of its task."""
        return numbers.choice((queue, *self.queues)), numbers.choice(self.keys)


def draw_lanes(numbers: random.Random, tasks: Sequence[str], ttl: float) -> LanesPlan | None:
    """Draw lanes for some of the worlds."""
    if numbers.random() >= SHARE:
        return None
    queues = tuple(numbers.sample(QUEUES, numbers.choice([1, 2, 4])))
    scopes = [Scope(ScopeKind.ALL), *(Scope(ScopeKind.QUEUE, queue) for queue in queues)]
    scopes += [Scope(ScopeKind.TASK, task) for task in numbers.sample(list(tasks), min(2, len(tasks)))]
    chosen = numbers.sample(scopes, numbers.choice([0, 1, 1, 2, 3]) if len(scopes) > 2 else 1)
    has_weights = numbers.random() < 0.4
    return LanesPlan(
        queues=queues,
        keys=tuple(numbers.sample(KEYS, numbers.choice([1, 2, 3, 5]))),
        jobs=numbers.choice([24, 40, 60]),
        limits=tuple((scope, _draw_limit(numbers, ttl)) for scope in sorted(chosen)),
        settings=tuple(_draw_settings(numbers) for _ in queues) if has_weights else (),
        has_operator=numbers.random() < 0.6,
    )


def _draw_limit(numbers: random.Random, ttl: float) -> Limit:
    """Draw a limit with one, two or all of its parts; a rate has its next start after a hundredth to a tenth of a ttl."""
    drawn = Limit(
        concurrency=numbers.choice(CONCURRENCY),
        per_key=numbers.choice([1, 1, 2]),
        rate=_draw_rate(numbers, ttl),
        rate_per_key=_draw_rate(numbers, ttl),
        burst=numbers.choice([1, 1, 2, 5]),
    )
    parts = ("concurrency", "per_key", "rate", "rate_per_key")
    kept = numbers.sample(parts, numbers.choice([1, 1, 2, 4]))
    return structs.replace(drawn, **{part: None for part in parts if part not in kept})


def _draw_rate(numbers: random.Random, ttl: float) -> str:
    return f"{numbers.choice([1, 1, 3])}/{round(ttl * numbers.choice([10, 30, 100]))}ms"


def _draw_settings(numbers: random.Random) -> QueueSettings:
    weights = {key: numbers.choice([2, 3]) for key in KEYS if numbers.random() < 0.3}
    return QueueSettings(priority=numbers.choice([0, 0, -3, 2]), weight=numbers.choice([1, 2, 3]), key_weights=weights)


def edited(limit: Limit, edition: int) -> Limit:
    """Return another edition of a limit: lowered, raised, or closed for all jobs."""
    match edition:
        case 1:
            return structs.replace(limit, concurrency=1, burst=1)
        case 2:
            more = None if limit.concurrency is None else limit.concurrency + 3
            return structs.replace(limit, concurrency=more, per_key=limit.per_key and limit.per_key + 2, burst=limit.burst + 2)
        case 3:
            return structs.replace(limit, concurrency=0)
        case _:
            return limit


def operations_on(plan: LanesPlan, script: Sequence[object] | None, chaos: float, numbers: random.Random) -> list[Operation]:
    """Return the operations of the script, or else drawn ones: the first set each limit and the settings of each queue."""
    if script is not None:
        return [each for each in script if isinstance(each, Operation) and each.name in OPERATIONS]
    found = [
        Operation(numbers.random() * chaos / 8, name, (number + 0.5) / count, "", 0.0)
        for name, count in (("set_limit", len(plan.limits)), ("set_queue", len(plan.settings)))
        for number in range(count)
    ]
    time = numbers.random() * chaos / 8
    while plan.has_operator and time < chaos:
        found.append(Operation(time, numbers.choice(OPERATIONS), numbers.random(), "", float(numbers.choice([0, 0, 1, 1, 2, 3]))))
        time += numbers.random() * chaos / 6
    return sorted(found, key=lambda each: each.time)
