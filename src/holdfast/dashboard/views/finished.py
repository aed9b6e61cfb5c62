"""How many jobs have finished, where there are too many to count: from statistics, if the store has them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from weakref import WeakKeyDictionary

from holdfast._core.answers import QueueView
from holdfast._core.job import State
from holdfast._engine import store_defaults
from holdfast._engine.operators.operators import client_of
from holdfast.app import App
from holdfast.dashboard.views.page import Asked
from holdfast.dashboard.words import number

KEPT: Final = timedelta(seconds=30)
"""How long statistics are shown again: they change with the tables, slowly."""
_read: "WeakKeyDictionary[App, tuple[datetime, Mapping[State, int]]]" = WeakKeyDictionary()


class Totals:
    """The jobs of all queues by state. ``about``: how many there are of the states of which not all were counted, as far as known."""

    def __init__(self, queues: Sequence[QueueView], about: Mapping[State, int]) -> None:
        self._counts: Counter[State] = Counter()
        for queue in queues:
            self._counts.update(queue.counts)
        self._capped = {state for queue in queues for state in queue.capped}
        self._about = about

    def __getitem__(self, state: State) -> int:
        return self._counts[state]

    def written(self, states: Iterable[State]) -> str:
        """Return the sum of these states as pages write it."""
        chosen = [*states]
        capped = self._capped.intersection(chosen)
        best = {
            each: max(self._counts[each], self._about.get(each, 0)) if each in capped else self._counts[each] for each in chosen
        }
        is_known = all(best[each] > self._counts[each] for each in capped)
        total = sum(self._counts[each] for each in chosen)
        return number(total, is_capped=bool(capped), about=sum(best.values()) if is_known else None)


async def totals(asked: Asked, queues: Sequence[QueueView]) -> Totals:
    """Return the jobs of all queues by state; the store is asked for statistics only if it did not count all."""
    if not any(queue.capped for queue in queues):
        return Totals(queues, {})
    known = _read.get(asked.app)
    if known is None or asked.now - known[0] > KEPT:
        known = asked.now, await client_of(asked.app.jobs).ask("estimates", store_defaults.estimates)
        _read[asked.app] = known
    return Totals(queues, known[1])
