"""The types of ``@app.task``: what enqueue accepts is the handler's own signature without the job."""

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from holdfast._engine.context import Job, SyncJob
from holdfast._engine.task import Task

Payload = ParamSpec("Payload")
Result = TypeVar("Result")


class Decorator(Protocol):
    """``@app.task`` and ``@app.task(…)`` once its options are given."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Job, Payload], Coroutine[Any, Any, Result]], /
    ) -> Task[Concatenate[Job, Payload], Coroutine[Any, Any, Result], Payload]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[SyncJob, Payload], Result], /
    ) -> Task[Concatenate[SyncJob, Payload], Result, Payload]: ...
    @overload
    def __call__(self, function: Callable[Payload, Result], /) -> Task[Payload, Result, Payload]: ...
