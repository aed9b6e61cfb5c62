"""What a member waits for beside the members whose outputs it takes."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from holdfast._core.workflow import Edge
from holdfast._engine.tasks.after import Join, When, problems_of_join, required
from holdfast._engine.workflows.node import Node


class Waits(NamedTuple):
    """The members that a member waits for, and how many of them must complete."""

    after: Sequence[Node[Any]]
    join: Join
    when: When

    @classmethod
    def of(cls, after: object, join: Join, when: When, problems: list[str]) -> "Waits":
        """Check what the user wrote; append what is wrong with it to the problems, and leave it out."""
        wrong = problems_of_join(join, when)
        problems += wrong
        nodes = _nodes_of(after, problems)
        return cls(nodes, "all", "succeeded") if wrong else cls(nodes, join, when)

    def parents(self, taken: Iterable[UUID]) -> list[UUID]:
        """Return all members that it waits for."""
        return list(dict.fromkeys([*(each.job for each in self.after), *taken]))

    def edges(self, parents: Iterable[UUID], child: UUID) -> list[Edge]:
        """Return the edges by which it waits for them."""
        return [Edge(parent, child, tolerates=self.when == "finished") for parent in parents]

    def required(self, parents: Sequence[UUID]) -> int | None:
        """Return how many of them must succeed; ``None``: all."""
        return required(self.join, len(parents))


def _nodes_of(after: object, problems: list[str]) -> list[Node[Any]]:
    if isinstance(after, str | bytes) or not isinstance(after, Sequence):
        problems.append(f"after={after!r}: use a list of nodes of this workflow: after=[node]")
        return []
    problems += [
        f"after=[{each!r}]: use nodes of this workflow, as w.add(…) returns them; "
        "a job that exists already can be waited for by a plain job: task.options(after=[handle])"
        for each in after
        if not isinstance(each, Node)
    ]
    return [each for each in after if isinstance(each, Node)]
