"""A member of a workflow that is being built, and what others can require of it."""

from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from msgspec import Struct

from holdfast._engine.tasks.reference import Reference
from holdfast._engine.tasks.task import PreparedJob

Result = TypeVar("Result", covariant=True)


class AtLeast(Struct, frozen=True):
    """A join that is satisfied once this many parents have completed."""

    number: int


class Node(Generic[Result]):
    """A member of a workflow. ``name`` is unique in the workflow."""

    def __init__(self, job: UUID, name: str, prepared: PreparedJob[Any]) -> None:
        self.job, self.name, self.prepared = job, name, prepared

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    @property
    def output(self) -> Result:
        """The result, as an argument of another member's ``bind``: type checkers see its type, the payload has a reference to it."""
        return cast(Result, Reference(self.job))
