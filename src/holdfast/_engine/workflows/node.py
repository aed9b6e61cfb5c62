"""A member of a workflow that is being built, and what others can require of it."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from msgspec import structs

from holdfast._engine.tasks.output import NotAnArgument, Output
from holdfast._engine.tasks.reference import Reference
from holdfast._engine.tasks.task import PreparedJob
from holdfast.errors import ConfigurationError

Result = TypeVar("Result", covariant=True)
Item = TypeVar("Item")


class Node(NotAnArgument, Generic[Result]):
    """A member of a workflow. ``name`` is unique in the workflow. ``is_map``: it runs once for each item of a list."""

    instead = "a node has no value: pass on its result, node.output"

    def __init__(self, job: UUID, name: str, prepared: PreparedJob[Any], *, is_map: bool = False) -> None:
        self.job, self.name, self.prepared, self.is_map = job, name, prepared, is_map

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    @property
    def kind(self) -> Any:
        """The type of the result, as the function is annotated."""
        returned = self.prepared.task.definition.returns
        return list[returned] if self.is_map else returned  # type: ignore[valid-type]

    @property
    def output(self) -> Result:
        """The result, as an argument of another member's ``bind``: type checkers see its type, the payload has a reference to it.

        It has no value before the member has run: what needs one, ``if``, ``==`` or an f-string, raises ``ConfigurationError``.
        """
        return cast(Result, Output(Reference(self.job, node=self.name)))


def each(output: Sequence[Item]) -> Item:
    """Return the items of a list as an argument of ``bind``: ``w.map`` runs the job once for each. Type checkers see the type of an item.

    >>> w.map(test.bind(suite=each(suites.output)))  # doctest: +SKIP
    """
    given: object = output
    if not isinstance(given, Output):
        raise ConfigurationError(
            [
                f"each({output!r}): it takes the output of a node; for a list that is known already, add a node for each item in a loop"
            ]
        )
    return cast(Item, Output(structs.replace(given._reference, is_each=True)))
