"""What a handler may enqueue with ``job.enqueue``: a task, one with options, or one that is bound already."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ParamSpec, Protocol

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._engine.client.handle import Handle

Payload = ParamSpec("Payload")


class ChildSpec(Protocol):
    """A child that a handler enqueues: a task with its options and a checked payload."""

    def new_child(self) -> NewJob:
        """Return a new job. ``ConfigurationError`` if an option does not fit a child."""
        ...

    def around(self, job: NewJob) -> AbstractContextManager[Sequence[NewJob]]:
        """Return the code around the enqueue of this job; it yields the job to be written."""
        ...

    def handle(self, job: NewJob, answer: EnqueueAnswer) -> Handle:
        """Return the handle of a job that was written."""
        ...


class Bindable(Protocol[Payload]):
    """A task, one with options, or one that is bound already."""

    def bind(self, *args: Payload.args, **kwargs: Payload.kwargs) -> ChildSpec:
        """Check the arguments, and return a job that is ready to be enqueued."""
        ...
