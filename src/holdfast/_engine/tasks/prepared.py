"""A job to be: a task with options and a checked payload."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from holdfast._core.answers import EnqueueAnswer
from holdfast._core.job import NewJob
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.handle import Handle, handles_of
from holdfast._engine.tasks.around_enqueue import enqueued_within
from holdfast._engine.tasks.options import Options
from holdfast._engine.tasks.output import NotAnArgument
from holdfast._engine.tasks.reference import Reference
from holdfast.errors import ConfigurationError, UniqueConflict

if TYPE_CHECKING:
    from holdfast._engine.tasks.task import Task

Bound = TypeVar("Bound", covariant=True)


class PreparedJob(NotAnArgument, Struct, Generic[Bound], frozen=True):
    """A task with options and a checked payload. Each ``new_job()`` has another id.

    ``references``: the parameters that the payload lacks, because they get the results of other members of a workflow.
    """

    task: "Task[..., Bound, ...]"
    options: Options
    payload: bytes
    references: Mapping[str, Reference | list[Reference]] = {}
    instead: ClassVar[str] = (
        "a bound task has no value: add it to the workflow first, node = w.add(task.bind(…)), and pass on node.output"
    )

    @property
    def name(self) -> str:
        """The name of its task."""
        return self.task.name

    @property
    def is_detached(self) -> bool:
        """Whether it belongs to no workflow of the job that enqueues it."""
        return self.options.detached

    @property
    def has_deadline(self) -> bool:
        """Whether it is a workflow with a deadline."""
        settings = self.task.definition.workflow
        return settings is not None and settings.deadline is not None

    def read(self, data: bytes) -> Bound:
        """Return a stored result with the type that the function is annotated with; that of a coroutine is what it returns."""
        value: Bound = self.task.definition.read_result(data)
        return value

    def bind(self) -> "PreparedJob[Bound]":
        """Return this one, so that ``job.enqueue`` takes it as it takes a task."""
        return self

    def new_job(self) -> NewJob:
        """Return a new job. ``ConfigurationError`` if it lacks results of a workflow's members."""
        if self.references:
            names = ", ".join(sorted(self.references))
            raise ConfigurationError(
                [f"{self.task.name}: {names}: a result of a workflow's member: add this job to that workflow"]
            )
        task, unique_by = self.task.definition, self.options.unique_by
        if task.unique_by is None and unique_by is None:
            return self._job(None, task.uniqueness)
        return self._job(task.unique_key_of(self.payload, unique_by), task.uniqueness)

    def new_member(self) -> NewJob:
        """Return a new job of a workflow, whose store fills in the results that it lacks; the workflow may have a unique key."""
        return self._job()

    def _job(self, unique_key: str | None = None, uniqueness: Uniqueness = UNTIL_FINISHED) -> NewJob:
        task, job = self.task.definition, connections_of(self.task).chance.uuid7()
        options, name, payload = self.options, task.name, self.payload
        key = "" if task.key is None or options.key else task.key_of(payload)
        return options.new_job(
            job,
            name,
            payload,
            queue=task.queue,
            key=key,
            priority=task.priority,
            policy=task.policy,
            unique_key=None if options.unique_key is not None else unique_key,
            uniqueness=uniqueness,
        )

    def new_child(self) -> NewJob:
        """Return a new job for a handler to enqueue. The graph of a workflow is built once a worker has claimed it.

        ``ConfigurationError`` with ``within=`` or ``after=``: its parent's token fences the write.
        """
        for option in ("within", "after"):
            if getattr(self.options, option) is not None:
                raise ConfigurationError([f"{option}: a child is written under its parent's token; leave {option} out"])
        return self.new_job()

    def around(self, job: NewJob) -> AbstractContextManager[Sequence[NewJob]]:
        """Return the App's code around the enqueue of this job; it yields the job to be written."""
        return enqueued_within(connections_of(self.task).around_enqueue, [job])

    def handle(self, job: NewJob, answer: EnqueueAnswer) -> Handle[Any]:
        """Return the handle of a job that was written. ``UniqueConflict`` if a job with another payload has its key."""
        handles = handles_of([job], answer, connections_of(self.task).client, self.task.definition.read_result)
        return accepted(handles, self.options, self.name)[0]


def accepted(handles: list[Handle[Any]], options: Options, task: str) -> list[Handle[Any]]:
    """Return the handles. ``UniqueConflict`` if the caller wants no earlier job in place of a new one."""
    earlier = [each for each in handles if not each.created] if options.raises_on_duplicate else []
    if earlier:
        raise UniqueConflict(f"task {task}: job {earlier[0].id} holds the unique key, and on_duplicate='raise'", earlier[0].id)
    return handles


def connections_of(task: "Task[..., Any, ...]") -> Connections:
    """Return the connections of the task's App. ``ConfigurationError`` if no App has included its group yet."""
    if task.connections is None:
        raise ConfigurationError(["this task is in a TaskGroup that no App has included: call app.include(group) first"])
    return task.connections
