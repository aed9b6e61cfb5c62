"""Counts of jobs that stop at a limit, and how they are shown."""

from collections import Counter
from collections.abc import Iterable

from msgspec import structs

from holdfast._core.answers import QueueView
from holdfast._core.job import FINISHED, State

MOST_COUNTED = 100_000
"""How many finished jobs of a state a look counts, where a store would read each of them."""


def capped_in(counts: Iterable[tuple[State, int]], most: int) -> tuple[State, ...]:
    """Return the states of which a store has stopped to count finished jobs; ``counts``: of all groups."""
    found = Counter[State]()
    for state, number in counts:
        found[state] += number
    return tuple(state for state in sorted(FINISHED) if found[state] == most + 1)


def at_least(number: int) -> str:
    """Return the count of a look that did not count all.

    >>> at_least(100_001), at_least(63_412), at_least(700)
    ('100,000+', '63,000+', '700+')
    """
    return f"{number - number % 1000 if number > 1000 else number:,}+"


def in_every_state(queues: Iterable[QueueView], most: int | None) -> tuple[QueueView, ...]:
    """Return queues with a count for each of the nine states; ``most``: the count at which the store has stopped, None for none."""
    found, every = [*queues], dict.fromkeys(State, 0)
    capped = () if most is None else capped_in((count for each in found for count in each.counts.items()), most)
    return tuple(structs.replace(each, counts=every | each.counts, capped=capped) for each in found)
