"""The jobs that a call of a verb names, perhaps finished long ago: the book needs their rows to answer it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any
from uuid import UUID

from holdfast._core.book.book import Book
from holdfast._core.job import NewJob
from holdfast._core.lifecycle import Transition

READING = frozenset(("get", "steps", "outputs"))
"""The verbs with such jobs that change nothing."""


def named_jobs(verb: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[UUID]:
    """Return the jobs, perhaps finished long ago, on which a call depends."""
    jobs_of = _NAMED.get(verb)
    if jobs_of is None:
        return []
    values = {**dict(zip(_parameters(verb), arguments, strict=False)), **keywords}
    return [job for parameter, found in jobs_of.items() if parameter in values for job in found(values[parameter])]


@cache
def _parameters(verb: str) -> tuple[str, ...]:
    _, _, *names = signature(getattr(Book, verb)).parameters
    return tuple(names)


def _one(job: UUID) -> Iterable[UUID]:
    return (job,)


def _each(jobs: Sequence[UUID]) -> Iterable[UUID]:
    return jobs


def _new(jobs: Sequence[NewJob]) -> Iterable[UUID]:
    return (job.id for job in jobs)


def _moved(transitions: Sequence[Transition]) -> Iterable[UUID]:
    for each in transitions:
        yield each.job
        yield from (child.job.id for child in each.children.members) if each.children else ()


_NAMED: Mapping[str, Mapping[str, Callable[[Any], Iterable[UUID]]]] = {
    **{verb: {"job": _one} for verb in ("get", "steps", "signal")},
    **{verb: {"ids": _each} for verb in ("outputs", "request_cancel", "reopen", "reschedule", "delete", "steer")},
    "annotate": {"notes": lambda notes: (note.job for note in notes)},
    "exchange": {"transitions": _moved},
    "enqueue": {"jobs": _new},
    "enqueue_after": {"jobs": _new, "after": lambda after: after.parents},
    "enqueue_flow": {"new": lambda new: (each.job.id for each in (*new.members, new.root))},
}
