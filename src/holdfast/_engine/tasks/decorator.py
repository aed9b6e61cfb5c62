"""``@app.task`` and ``@group.task``: what enqueue accepts is the handler's own signature without the job."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from holdfast._engine.tasks.celery_names import unknown_options
from holdfast._engine.tasks.registry import Errors, define
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._core.durations import Duration
    from holdfast._core.limits import Limit
    from holdfast._core.policy import Backoff, ChangePolicy, CrashPolicy
    from holdfast._core.uniqueness import UniqueUntil
    from holdfast._core.view import RescuedJob
    from holdfast._engine.tasks.context import Job, SyncJob
    from holdfast._engine.tasks.task import Task

Payload = ParamSpec("Payload")
Result = TypeVar("Result")
Hook = Callable[[Any, "RescuedJob"], Any]


class Decorator(Protocol):
    """``@app.task`` and ``@app.task(…)`` once its options are given."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Job, Payload], Coroutine[Any, Any, Result]], /
    ) -> Task[Concatenate[Job, Payload], Coroutine[Any, Any, Result], Payload, Result]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[SyncJob, Payload], Result], /
    ) -> Task[Concatenate[SyncJob, Payload], Result, Payload, Result]: ...
    @overload
    def __call__(
        self, function: Callable[Payload, Coroutine[Any, Any, Result]], /
    ) -> Task[Payload, Coroutine[Any, Any, Result], Payload, Result]: ...
    @overload
    def __call__(self, function: Callable[Payload, Result], /) -> Task[Payload, Result, Payload, Result]: ...


class TaskRegistrar(ABC):
    """What tasks can be registered with: an App or a group."""

    @overload
    def task(
        self, function: Callable[Concatenate[Job, Payload], Coroutine[Any, Any, Result]], /
    ) -> Task[Concatenate[Job, Payload], Coroutine[Any, Any, Result], Payload, Result]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[SyncJob, Payload], Result], /
    ) -> Task[Concatenate[SyncJob, Payload], Result, Payload, Result]: ...
    @overload
    def task(
        self, function: Callable[Payload, Coroutine[Any, Any, Result]], /
    ) -> Task[Payload, Coroutine[Any, Any, Result], Payload, Result]: ...
    @overload
    def task(self, function: Callable[Payload, Result], /) -> Task[Payload, Result, Payload, Result]: ...
    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        key: str | None = None,
        priority: int = 0,
        max_attempts: int = 3,
        max_crashes: int = 3,
        backoff: Backoff | None = None,
        retry_for: Errors = (),
        fail_for: Errors = (),
        timeout: Duration | None = None,
        progress_within: Duration | None = None,
        on_crash: CrashPolicy | Literal["retry", "fail", "hold"] = "retry",
        on_changed_steps: ChangePolicy | Literal["hold", "fail", "restart"] = "hold",
        retention: Duration = "7d",
        retention_failed: Duration | None = None,
        process: bool = False,
        on_rescue: Hook | None = None,
        limit: Limit | None = None,
        sensitive: Sequence[str] = (),
        unique_by: Sequence[str] | None = None,
        unique_for: Duration | None = None,
        unique_until: UniqueUntil = "finished",
    ) -> Decorator: ...
    def task(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Register a handler, bare or with options. ``ConfigurationError`` names everything that cannot work.

        The job parameter is optional and comes first: ``Job`` in ``async def``, ``SyncJob`` in ``def``, which
        runs in a thread or, with ``process=True``, in a separate process. That process can be killed when the handler does not stop or
        passes its limit, and its crash costs no other job anything.
        ``key``: the name of the parameter that holds each job's key, usually the tenant.
        ``limit``: how many of its jobs may be active at once or start in a time, in the whole cluster, also for each key.
        ``on_changed_steps``: whether a job whose code was changed under its recorded steps is held, fails, or forgets them and restarts.
        ``unique_by``: the parameters whose values are a job's unique key; ``unique_for`` and ``unique_until``: how long it holds its key.
        ``sensitive``: names of parameters, and of fields in them, whose values no log shows.
        ``on_rescue``: a function of a connection and a ``RescuedJob``, which repairs your own rows after an interrupted attempt.

        >>> @app.task(max_attempts=5, backoff=Backoff.exponential("1s", cap="1h"))  # doctest: +SKIP
        ... async def analyze(job: Job, repo_url: str, limit: int = 100) -> dict: ...
        """

        known = set(inspect.signature(define).parameters) - {"function"}
        if problems := unknown_options("app.task", options, known):
            raise ConfigurationError(problems)

        def register(handler: Callable[..., Any]) -> Task[..., Any, ...]:
            return self._register(handler, options)

        return register if function is None else register(function)

    @abstractmethod
    def _register(self, handler: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any, ...]:
        """Register the handler and return its task."""
