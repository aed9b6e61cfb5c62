"""What a handler may enqueue with ``job.enqueue``: a task, one with options, or one that is bound already."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._core.answers import EnqueueAnswer
    from holdfast._core.job import NewJob
    from holdfast._engine.client.handle import Handle

Payload = ParamSpec("Payload")
Returned = TypeVar("Returned", covariant=True)


class ChildSpec(Protocol):
    """A child that a handler enqueues: a task with its options and a checked payload.

    ``is_detached``: it belongs to no workflow of its parent. ``has_deadline``: it is a workflow with one.
    """

    @property
    def is_detached(self) -> bool: ...
    @property
    def has_deadline(self) -> bool: ...

    def new_child(self) -> NewJob:
        """Return a new job. ``ConfigurationError`` if an option does not fit a child."""
        ...

    def around(self, job: NewJob) -> AbstractContextManager[Sequence[NewJob]]:
        """Return the code around the enqueue of this job; it yields the job to be written."""
        ...

    def handle(self, job: NewJob, answer: EnqueueAnswer) -> Handle:
        """Return the handle of a job that was written."""
        ...


class BoundChild(ChildSpec, Protocol[Returned]):
    """A child that is bound to its arguments, of which a handler waits for the result."""

    @property
    def name(self) -> str:
        """The name of its task."""
        ...

    def read(self, data: bytes) -> Returned:
        """Return a stored result with the type that its function is annotated with; that of a coroutine is what it returns."""
        ...


def require_member(child: ChildSpec, job: NewJob) -> None:
    """Raise ``ConfigurationError`` for a child that cannot be a member of a workflow."""
    if job.unique_key is not None:
        raise ConfigurationError(
            [f"{job.task}: unique_key: a member of a workflow cannot have one; enqueue it with .options(detached=True)"]
        )
    if child.has_deadline:
        raise ConfigurationError(
            [f"{job.task}: deadline: a workflow in another one has none; enqueue it with .options(detached=True)"]
        )


class Bindable(Protocol[Payload]):
    """A task, one with options, or one that is bound already."""

    def bind(self, *args: Payload.args, **kwargs: Payload.kwargs) -> ChildSpec:
        """Check the arguments, and return a job that is ready to be enqueued."""
        ...
