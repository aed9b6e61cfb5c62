"""Which folder of tests `pytest --long today` takes the long tests of: another one each day.

All of them together would take longer than a push may; `make prove` runs them.
"""

from __future__ import annotations

import datetime

TURNS = ("tests/contract", "tests/stores", "tests/simulation", "tests/e2e", "tests/bench", "tests/code_evolution", "tests/docs")
"""The folders that have long tests, one each day."""


def part(day: datetime.date) -> str:
    """Return the folder of that day.

    >>> part(datetime.date(2026, 1, 1))
    'tests/bench'
    """
    return TURNS[day.toordinal() % len(TURNS)]


def today() -> str:
    """Return the folder of this day."""
    return part(datetime.datetime.now(datetime.UTC).date())
