"""Real statements of SQLite with one missing guard, and blocks on a handler's own connection, as context managers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.databases.sqlite import driver
from holdfast.stores.sqlite.caller_blocks import Checks
from holdfast.stores.sqlite.database import QUERIES
from proof.simulator import own_rows
from tests.simulation.patching import patched

_PERIOD = re.compile(
    r"OR \w+\.created_at \+ CAST\(round\(json_extract\(\w+\.extra, '\$\.unique\.seconds'\) \* 1000000\) AS INTEGER\) > \S+"
)
_START = re.compile(r"AND \(\w+\.claim_number = 0 OR (json_extract\(\w+\.extra, '\$\.unique\.until_started'\) IS NULL)\)")


@contextmanager
def _without(guard: re.Pattern[str], rest: str) -> Iterator[None]:
    """Replace each guard of this kind in the statements that enqueue."""
    made = [guard.sub(rest, program) for program in QUERIES["enqueue"].programs]
    assert made != QUERIES["enqueue"].programs
    with patched(QUERIES["enqueue"], programs=made):
        yield


def period_ignored() -> Any:
    """A statement frees the key of a completed job although its period is not over."""
    return _without(_PERIOD, "")


def key_freed_before_claim() -> Any:
    """A statement frees the key of a job that frees it when it is claimed, and has not been claimed."""
    return _without(_START, r"AND \1")


def block_unchecked() -> Any:
    """A block of a handler's own rows commits without a check of its token."""
    return patched(Checks, _require_ours=lambda checks, cursor: None)


@contextmanager
def block_checked_beside() -> Iterator[None]:
    """A block checks its token at its entry only, on another connection, so that no lock covers the check and the rows."""

    def first(self: Checks, connection: Any) -> None:
        other = driver.connect(self._path, use_apsw=self._use_apsw)
        try:
            self._require_ours(other)
        finally:
            other.close()
        with driver.plain_cursor(connection) as cursor:
            cursor.execute("BEGIN")

    with patched(Checks, _first=first, _last=lambda checks, connection: None), patched(own_rows, INSIDE=20.0):
        yield
