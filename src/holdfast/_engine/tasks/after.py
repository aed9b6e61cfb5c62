"""What a caller lets a job wait for: jobs that exist already, and how many of them must succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from msgspec import Struct

from holdfast._engine.client.handle import Handle

if TYPE_CHECKING:
    from holdfast._core.dependencies import After


class AtLeast(Struct, frozen=True):
    """A join that is satisfied once this many parents have completed."""

    number: int


Join = Literal["all", "any"] | AtLeast
When = Literal["succeeded", "finished"]


Parent = Handle | UUID | str
"""A job that exists already, by its handle or its id."""


def required(join: object, parents: int) -> int | None:
    """Return how many of the parents must succeed; ``None``: all."""
    if isinstance(join, AtLeast):
        return join.number
    return 1 if join == "any" and parents else None


def after_of(given: object, join: object, when: object, problems: list[str], **others: object) -> After | None:
    """Check what the user wrote, and return it; ``None`` without parents. Append what is wrong with it to the problems.

    ``others``: the options that do not fit a job that waits for others.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        problems.append(f"after={given!r}: use a list of handles or ids")
        return None
    parents = dict.fromkeys(job for each in given if (job := _id_of(each, problems)) is not None)
    problems += problems_of_join(join, when)
    if isinstance(join, AtLeast) and not 1 <= join.number <= len(parents):
        most = f"use 1 to {len(parents)}" if parents else "name these jobs with after="
        problems.append(f"join={join!r}, but it has {len(parents)} parents: {most}")
    if parents:
        problems += [f"{name}: {_MISFITS[name]}; leave it out, or after" for name, value in others.items() if value is not None]
    if problems or not parents:
        return None
    from holdfast._core.dependencies import After

    return After(tuple(parents), required(join, len(parents)), tolerates=when == "finished")


def problems_of_join(join: object, when: object) -> list[str]:
    """Return what is wrong with how many parents must succeed, and with what they must do.

    >>> problems_of_join("all", "done")
    ["when='done': use 'succeeded' or 'finished'"]
    """
    is_join = join in ("all", "any") if isinstance(join, str) else isinstance(join, AtLeast)
    problems = [] if is_join else [f"join={join!r}: use 'all', 'any' or AtLeast(2)"]
    return problems if when in ("succeeded", "finished") else [*problems, f"when={when!r}: use 'succeeded' or 'finished'"]


def _id_of(parent: object, problems: list[str]) -> UUID | None:
    if isinstance(parent, UUID):
        return parent
    if isinstance(parent, Handle):
        return parent.id
    if isinstance(parent, str):
        try:
            return UUID(parent)
        except ValueError:
            pass
    problems.append(
        f"after={parent!r}: use the handle of a job that was enqueued, or its id; for a node of a workflow use w.add(…, after=[node])"
    )
    return None


_MISFITS = {
    "unique_key": "a job that waits for others cannot have one",
    "unique_by": "a job that waits for others cannot have a unique key",
    "within": "a job that waits for others is written in a separate transaction, which locks them",
}
