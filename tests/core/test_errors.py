"""Exceptions that people meet go from one process to another."""

import copy
import pickle  # noqa: TID251 - what process pools of users do with exceptions
from uuid import UUID

import pytest

from holdfast import (
    ConfigurationError,
    InsideEventLoop,
    JobFailed,
    MissingExtra,
    Retry,
    RowsLost,
    Snooze,
    StoreBusy,
    UniqueConflict,
)

ONES = frozenset({UUID(int=1)})


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError(["first", "second"]),
        MissingExtra("asyncpg", "postgres"),
        UniqueConflict("held", UUID(int=1)),
        JobFailed("attempts", None, ()),
        StoreBusy("locked", ONES, states={UUID(int=2): "failed"}),
        RowsLost("lost", [1, 2]),
        InsideEventLoop("app.arun"),
        Retry(after="10s", reason="busy"),
        Snooze(for_="5m"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_is_the_same_in_another_process(error: Exception) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), other.__dict__) == (type(error), str(error), error.__dict__)
