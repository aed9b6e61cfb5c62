"""Which jobs an operator means, by conditions, and what became of them."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.job import Reason, State
from holdfast._core.requests import JobFilter
from holdfast._engine.client.client import BATCH
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError

RANGES: Final = ("created_after", "created_before", "available_after", "available_before", "finished_after", "finished_before")


class Where(Struct, frozen=True, repr_omit_defaults=True):
    """Which jobs a verb is for: all conditions must hold, and without one all jobs match.

    ``older_than``: since the job ended or, if it has not, since it was enqueued. ``attempts_at_least``: begun so far. ``…_after``: at
    that time or later; ``…_before``: earlier. ``error_key``: the fingerprint of their error.

    >>> Where(state="failed", older_than="1h")
    Where(state='failed', older_than='1h')
    """

    state: State | str | None = None
    reason: Reason | str | None = None
    task: str | None = None
    queue: str | None = None
    key: str | None = None
    tag: str | None = None
    older_than: Duration | None = None
    attempts_at_least: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    available_after: datetime | None = None
    available_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    error_key: str | None = None

    def filter(self, limit: int | None, *, before: UUID | None = None) -> JobFilter:
        """Return the same conditions as a store takes them, for ``limit`` jobs; ``ConfigurationError`` with every problem."""
        problems: list[str] = []
        if self.state is not None and self.state not in set(State):
            problems.append(f"state={self.state!r}: use one of {', '.join(State)}")
        if self.reason is not None and self.reason not in set(Reason):
            problems.append(f"reason={self.reason!r}: use one of {', '.join(Reason)}")
        problems += problems_of_names("-", "-" if self.queue is None else self.queue, 0)
        least = self.attempts_at_least
        for name, number in (("limit", limit), ("attempts_at_least", least)):
            if number is not None and (type(number) is not int or number < 1):
                problems.append(f"{name}={number!r}: use an integer from 1")
        ranges = {name: getattr(self, name) for name in RANGES}
        for name, at in ranges.items():
            if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
                problems.append(f"{name}={at!r}: use a datetime with a time zone, such as datetime.now(UTC)")
        try:
            age = None if self.older_than is None else seconds(self.older_than)
        except ValueError as error:
            problems.append(f"older_than: {error}")
        if problems:
            raise ConfigurationError(problems)
        return JobFilter(
            state=None if self.state is None else State(self.state),
            reason=None if self.reason is None else Reason(self.reason),
            task=self.task,
            queue=self.queue,
            key=self.key,
            tag=self.tag,
            older_than=age,
            attempts_at_least=least,
            **ranges,
            error_key=self.error_key,
            limit=BATCH if limit is None else limit,
            before=before,
        )


def selector_of(where: Where, limit: int | None) -> dict[str, Any]:
    """Return the conditions that are set, for the record of an action."""
    given = {name: getattr(where, name) for name in where.__struct_fields__} | {"limit": limit}
    return {name: value for name, value in given.items() if value is not None} or {"all": True}


class Steered(Struct, frozen=True):
    """What a verb did to the jobs that a ``Where`` matched: how many by the state they are in now, and which of them refused.

    A job refuses that has moved on and matches no longer, that another session has locked, or that the verb does not fit. A dry run has
    the states they were found in; those refuse that the verb does not fit. ``deleted`` stands for those deleted, ``unknown`` for those
    that were gone.
    """

    jobs: int
    states: dict[str, int]
    refused: dict[UUID, State] = {}
