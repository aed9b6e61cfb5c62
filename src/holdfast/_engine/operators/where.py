"""Which jobs an operator means, by conditions, and what became of them."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar
from uuid import UUID

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.job import Reason, State
from holdfast._core.requests import JobFilter, several
from holdfast._engine.client.client import BATCH
from holdfast._engine.tasks.registry import problems_of_names
from holdfast.errors import ConfigurationError

Choices = str | Collection[str] | None
"""One value, or several of which one must be that of a job; None: any."""
Named = TypeVar("Named", State, Reason)
LISTS: Final = ("state", "reason", "task", "queue", "tag", "worker")
_NAMES: Final[dict[str, type[State] | type[Reason]]] = {"state": State, "reason": Reason}
RANGES: Final = ("created_after", "created_before", "available_after", "available_before", "finished_after", "finished_before")


class Conditions(TypedDict, total=False):
    """The conditions of a ``Where``, by name."""

    state: Choices
    reason: Choices
    task: Choices
    queue: Choices
    key: str | None
    tag: Choices
    older_than: Duration | None
    attempts_at_least: int | None
    created_after: datetime | None
    created_before: datetime | None
    available_after: datetime | None
    available_before: datetime | None
    finished_after: datetime | None
    finished_before: datetime | None
    error_key: str | None
    worker: Choices
    workflow: UUID | str | None
    schedule: str | None
    rescued: bool | None
    text: str | None
    up_to: datetime | None


class Where(Struct, frozen=True, repr_omit_defaults=True):
    """Which jobs a verb is for: all conditions must hold, and without one all jobs match.

    ``state``, ``reason``, ``task``, ``queue``, ``tag`` and ``worker`` take one value, or a list of which a job must have one. ``worker``:
    that has the job, or had it last. ``schedule``: whose tick made it. ``rescued``: whether it was taken back from a worker that had lost
    it. ``text``: a part of the task's name or of the error, in small or capital letters. ``up_to``: jobs that were enqueued, and those that
    have ended had ended, by then: what fails after a person has looked is left alone.
    ``older_than``: since the job ended or, if it has not, since it was enqueued. ``attempts_at_least``: begun so far. ``…_after``: at
    that time or later; ``…_before``: earlier. ``error_key``: the fingerprint of their error.

    >>> Where(state="failed", older_than="1h")
    Where(state='failed', older_than='1h')
    """

    state: Choices = None
    reason: Choices = None
    task: Choices = None
    queue: Choices = None
    key: str | None = None
    tag: Choices = None
    older_than: Duration | None = None
    attempts_at_least: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    available_after: datetime | None = None
    available_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    error_key: str | None = None
    worker: Choices = None
    workflow: UUID | str | None = None
    schedule: str | None = None
    rescued: bool | None = None
    text: str | None = None
    up_to: datetime | None = None

    def filter(self, limit: int | None, *, before: UUID | None = None) -> JobFilter:
        """Return the same conditions as a store takes them, for ``limit`` jobs; ``ConfigurationError`` with every problem."""
        problems = [*self._problems_of_lists()]
        for name, number in (("limit", limit), ("attempts_at_least", self.attempts_at_least)):
            if number is not None and (type(number) is not int or number < 1):
                problems.append(f"{name}={number!r}: use an integer from 1")
        instants = {name: getattr(self, name) for name in (*RANGES, "up_to")}
        for name, at in instants.items():
            if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
                problems.append(f"{name}={at!r}: use a datetime with a time zone, such as datetime.now(UTC)")
        try:
            age = None if self.older_than is None else seconds(self.older_than)
        except ValueError as error:
            problems.append(f"older_than: {error}")
        try:
            workflow = None if self.workflow is None else UUID(str(self.workflow))
        except ValueError:
            problems.append(f"workflow={self.workflow!r}: use the id of a workflow, which `holdfast workflows list` shows")
        if self.text == "":
            problems.append("text='': use at least one character")
        if problems:
            raise ConfigurationError(problems)
        lists: dict[str, Any] = {name: _chosen(getattr(self, name)) for name in LISTS}
        lists["state"], lists["reason"] = _named(State, lists["state"]), _named(Reason, lists["reason"])
        return JobFilter(
            **lists,
            **instants,
            key=self.key,
            older_than=age,
            attempts_at_least=self.attempts_at_least,
            error_key=self.error_key,
            workflow=workflow,
            schedule=self.schedule,
            is_rescued=self.rescued,
            text=self.text,
            limit=BATCH if limit is None else limit,
            before=before,
        )

    def _problems_of_lists(self) -> Iterator[str]:
        """Return what is wrong with conditions that take several values."""
        for name in LISTS:
            if (chosen := several(_chosen(getattr(self, name)))) == ():
                yield f"{name}=[]: name at least one, or leave it out"
            for each in chosen or ():
                if name in _NAMES and each not in set(_NAMES[name]):
                    yield f"{name}={each!r}: use one of {', '.join(_NAMES[name])}"
        for queue in several(_chosen(self.queue)) or ():
            yield from problems_of_names("-", queue, 0)


def states_in(where: Where, limit: int | None) -> tuple[str, ...]:
    """Return the states that are named; ``ConfigurationError`` with every problem, such as an empty list of states."""
    return several(where.filter(limit).state) or ()


def _chosen(choice: Choices) -> str | tuple[str, ...] | None:
    """Return one value as it is, and several without repetitions."""
    return choice if choice is None or isinstance(choice, str) else tuple(dict.fromkeys(choice))


def _named(kind: type[Named], choice: Any) -> Any:
    return tuple(kind(each) for each in choice) if isinstance(choice, tuple) else None if choice is None else kind(choice)


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
