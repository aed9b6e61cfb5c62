"""Rows that their database refuses to change while it changes others: found by halving, skipped for a while, reported once."""

from collections.abc import Callable, Iterator, Sequence

from holdfast._core.table_spec import Key
from holdfast._ports.table import Refusal

REMEMBERED = 600.0
"""Seconds for which parts of a batch are made without a row that was refused. A whole batch is always tried first, with it."""

ROUNDS = 10
"""Batches of refused rows that one claim skips until it gets a row."""


class Parts:
    """The rows of a batch that was refused: all of them at first, then halves of what is refused, until each such row is single.

    >>> parts, found = Parts([(1,), (2,), (3,), (4,), (5,)]), []
    >>> for part in parts:
    ...     if (4,) in part:
    ...         parts.refuse(part, "no")
    ...     else:
    ...         found += part
    >>> found, parts.refused
    ([(1,), (2,), (3,), (5,)], {(4,): 'no'})
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._left = [list(keys)] if keys else []
        self.is_empty = not keys
        self.refused: dict[Key, str] = {}

    def __iter__(self) -> Iterator[list[Key]]:
        while self._left:
            yield self._left.pop()

    def refuse(self, part: list[Key], error: str) -> None:
        """Note that the database does not change these rows together, and has changed none of them."""
        if len(part) == 1:
            self.refused[part[0]] = error
            return
        half = len(part) // 2
        self._left += [part[half:], part[:half]]


class Refusals:
    """The rows of one table that the database has refused to change; for a while, the refused verb skips them.

    ``now``: returns seconds that never go back.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: dict[tuple[str, Key], float] = {}
        self._untold: list[Refusal] = []

    def known(self, verb: str) -> int:
        """Return how many rows this verb, such as ``claim``, skips at the moment because the database refused them."""
        now = self._now()
        self._known = {row: until for row, until in self._known.items() if until > now}
        return sum(of == verb for of, _ in self._known)

    def parts(self, verb: str, candidates: Sequence[Key], limit: int) -> Parts:
        """Make the parts of a batch: at most ``limit`` of the candidates, without those that the verb skips."""
        return Parts([key for key in candidates if (verb, key) not in self._known][:limit])

    def learn(self, verb: str, parts: Parts) -> None:
        """Record which rows of the parts were refused."""
        until = self._now() + REMEMBERED
        self._known |= dict.fromkeys(((verb, key) for key in parts.refused), until)
        self._untold += [Refusal(verb, key, error) for key, error in parts.refused.items()]

    def take(self) -> list[Refusal]:
        """Remove and return the refusals that have not been reported yet."""
        untold, self._untold = self._untold, []
        return untold
