"""Tasks by name: the function, its options and what it accepts. A registry belongs to one App; there is no global one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from msgspec import Struct, structs

from holdfast._core.durations import Duration, seconds
from holdfast._core.payload import PayloadType, annotations_of, decode_json, encode_payload, key_in, reader_of
from holdfast._core.policy import Backoff, ChangePolicy, CrashPolicy, Policy
from holdfast._core.secret_fields import secret_fields
from holdfast._core.text import shortened
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness, UniqueUntil
from holdfast._engine.tasks.job_parameter import takes_job_of
from holdfast._engine.tasks.option_problems import period_of, problems_of_limit, problems_of_sensitive, problems_of_uniqueness
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast._core.declared import Declared, DeclaredLimit, DeclaredQueue
    from holdfast._core.job import Json
    from holdfast._core.limits import Limit, Scope
    from holdfast._core.schedule import DeclaredSchedule
    from holdfast._core.table_spec import RowsSettings
    from holdfast._core.timing import LeaseTiming
    from holdfast._core.workflow import WorkflowSettings
    from holdfast._engine.tasks.around import Around

NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
PRIORITIES = range(-(2**31), 2**31)

Errors = type[BaseException] | tuple[type[BaseException], ...]


class RunnerKind(StrEnum):
    """Where a handler runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


class TaskDefinition(Struct, frozen=True, kw_only=True):
    """A registered handler. ``policy`` travels on each job's row, so that processes without the code can apply it.

    ``key``: the field of the payload that is each job's key. ``limit``: of all its jobs; it counts once a supervisor has stored it.
    ``on_changed_steps``: only a worker with the code finds a change, so it does not travel on the row.
    ``rows``: the table whose rows it works on, if its jobs are runs of such a handler. ``workflow``: its function builds the graph of a
    workflow, and takes a ``Workflow`` first. ``sensitive``: names whose values no log shows, beside those that it knows.
    """

    name: str
    function: Callable[..., Any]
    is_async: bool
    takes_job: bool
    queue: str
    priority: int
    policy: Policy
    retry_for: tuple[type[BaseException], ...]
    fail_for: tuple[type[BaseException], ...]
    payload: PayloadType
    process: bool = False
    on_rescue: Callable[..., Any] | None = None
    rows: RowsSettings | None = None
    key: str | None = None
    limit: Limit | None = None
    on_changed_steps: ChangePolicy = ChangePolicy.HOLD
    workflow: WorkflowSettings | None = None
    sensitive: frozenset[str] = frozenset()
    unique_by: tuple[str, ...] | None = None
    uniqueness: Uniqueness = UNTIL_FINISHED

    @property
    def kind(self) -> RunnerKind:
        """Where the handler runs: loop, thread or process."""
        if self.is_async:
            return RunnerKind.LOOP
        return RunnerKind.PROCESS if self.process else RunnerKind.THREAD

    @property
    def returns(self) -> Any:
        """The type of its results, as the function is annotated; of a workflow, that of the node that it returns.

        ``Retry``, ``Snooze``, ``Cancel`` and ``Fail`` are left out of a union, because a job that returned one has no result yet.
        """
        annotation = annotations_of(self.function).get("return", Any)
        if self.workflow is not None:
            return (get_args(annotation) or (Any,))[0]
        from holdfast._core.outcome import ANSWERS

        kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        results = tuple(kind for kind in kinds if kind not in ANSWERS)
        return annotation if len(results) == len(kinds) else Union[results or (Any,)]  # noqa: UP007 - of a tuple

    def read_result(self, data: bytes) -> Any:
        """Return a stored result as ``returns``; ``ResultInvalid`` if it does not fit."""
        return reader_of(self.returns, f"the result of {self.name}")(data)

    def key_of(self, payload: bytes) -> str:
        """Return the key of a job with this payload; ``PayloadInvalid`` if the field cannot be one."""
        return "" if self.key is None else key_in(payload, self.key)

    def unique_key_of(self, payload: bytes, unique_by: Sequence[str] | None = None) -> str | None:
        """Return the unique key that parameters of a payload make, ``unique_by`` or those of the task; ``None`` for none of them."""
        fields = self.unique_by if unique_by is None else unique_by
        if fields is None:
            return None
        if unknown := sorted({*fields} - self.payload.fields):
            raise ConfigurationError([f"task {self.name}: unique_by: it has no parameter {name!r}" for name in unknown])
        from holdfast._core.unique_keys import unique_key_in

        return unique_key_in(payload, fields, defaults_of(self.function))

    def is_final(self, error: BaseException) -> bool:
        """Return whether retrying after this exception is pointless, by ``fail_for`` and ``retry_for``."""
        return isinstance(error, self.fail_for) or (bool(self.retry_for) and not isinstance(error, self.retry_for))


class Registry:
    """The tasks of one App, and the schedules, limits and settings of queues in its code."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskDefinition] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}
        self._limits: dict[Scope, DeclaredLimit] = {}
        self._queues: dict[str, DeclaredQueue] = {}
        self.around_run: list[Around] = []

    def add(self, *definitions: TaskDefinition) -> None:
        """Register all or none; ``ConfigurationError`` if a name is taken, because a job's row knows only the name."""
        taken = [task.name for task in definitions if task.name in self._tasks]
        if taken:
            raise ConfigurationError([f"task {name}: registered twice; give one of them name='…'" for name in taken])
        self._tasks.update({task.name: task for task in definitions})

    def get(self, name: str) -> TaskDefinition | None:
        """Return the task of that name, or ``None``."""
        return self._tasks.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names, in order of registration."""
        return tuple(self._tasks)

    def rows_tasks(self) -> tuple[RowsSettings, ...]:
        """Return the tables that have a handler among these tasks."""
        return tuple(task.rows for task in self._tasks.values() if task.rows is not None)

    def add_schedule(self, *declared: DeclaredSchedule) -> None:
        """Register schedules; ``ConfigurationError`` if a name is taken."""
        if taken := [each.name for each in declared if each.name in self._schedules]:
            raise ConfigurationError([f"schedule {name}: declared twice; give one of them name='…'" for name in taken])
        self._schedules.update({each.name: each for each in declared})

    def schedules(self) -> tuple[DeclaredSchedule, ...]:
        """Return all schedules, in order of registration."""
        return tuple(self._schedules.values())

    def add_limit(self, scope: Scope, limit: Limit) -> None:
        """Register the limit of a queue or of the cluster; ``ConfigurationError`` if it has one."""
        if scope in self._limits:
            raise ConfigurationError([f"limit of {scope}: declared twice; write one Limit(…) with all of it"])
        from holdfast._core.declared import DeclaredLimit

        self._limits[scope] = DeclaredLimit(scope, limit)

    def add_queue(self, queue: DeclaredQueue) -> None:
        """Register the settings of a queue; ``ConfigurationError`` if it has some."""
        if queue.name in self._queues:
            raise ConfigurationError([f"queue {queue.name}: declared twice; write one app.queue(…) with all of it"])
        self._queues[queue.name] = queue

    def declared(self) -> Declared:
        """Return the limits of tasks, of queues and of the cluster, and the settings of queues."""
        from holdfast._core.declared import Declared, DeclaredLimit
        from holdfast._core.limits import Scope, ScopeKind

        of_tasks = [(Scope(ScopeKind.TASK, task.name), task.limit) for task in self._tasks.values()]
        limits = tuple(DeclaredLimit(scope, limit) for scope, limit in of_tasks if limit is not None)
        named = {task.queue for task in self._tasks.values()} | {*self._queues}
        return Declared((*limits, *self._limits.values()), tuple(self._queues.values()), tuple(sorted(named)))

    def take_over(self, other: Registry) -> None:
        """Register the schedules, limits and queues of another registry, which are not its tasks'."""
        self._schedules |= other._schedules
        self._limits |= other._limits
        self._queues |= other._queues

    def problems(self, timing: LeaseTiming) -> list[str]:
        """Return which options of tasks contradict the timing of the App's leases."""
        return [
            f"task {name}: progress_within >= beat + margin is broken: {within:g}s, {timing.beat:g}s + {timing.margin:g}s;"
            " raise progress_within or lower the App's ttl"
            for name, task in self._tasks.items()
            if (within := task.policy.progress_within) is not None and within < timing.beat + timing.margin
        ]

    def policies(self, kind: RunnerKind | None = None) -> dict[str, Policy]:
        """Return the policies that a claim, for handlers of one kind or all, writes on the rows it takes."""
        return {name: task.policy for name, task in self._tasks.items() if kind in (None, task.kind)}


@cache
def defaults_of(function: Callable[..., Any]) -> dict[str, Json]:
    """Return the defaults of a handler's parameters, as a payload would have them."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
    values: dict[str, Json] = decode_json(encode_payload(function.__name__, defaults))
    return values


def define(  # size: one line for each option
    function: Callable[..., Any],
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
    on_crash: CrashPolicy | str = CrashPolicy.RETRY,
    on_changed_steps: ChangePolicy | str = ChangePolicy.HOLD,
    retention: Duration = "7d",
    retention_failed: Duration | None = None,
    process: bool = False,
    on_rescue: Callable[..., Any] | None = None,
    limit: Limit | None = None,
    sensitive: Sequence[str] = (),
    unique_by: Sequence[str] | None = None,
    unique_for: Duration | None = None,
    unique_until: UniqueUntil = "finished",
) -> TaskDefinition:
    """Check what the user wrote, and return the task definition; ``ConfigurationError`` with every problem found."""
    name = getattr(function, "__name__", "") if name is None else name
    problems = [
        *problems_of_names(name, queue, priority),
        *_problems_of_function(function),
        *_problems_of_process(function, process),
        *_problems_of_hook(function, on_rescue),
        *problems_of_limit(limit),
        *problems_of_sensitive(sensitive),
    ]
    period = period_of(unique_for, problems)
    if on_changed_steps not in set(ChangePolicy):
        problems.append(f"on_changed_steps={on_changed_steps!r}: use 'hold', 'fail' or 'restart'")
    retried, failed = _errors("retry_for", retry_for, problems), _errors("fail_for", fail_for, problems)
    limits = {
        "retention": retention,
        "timeout": timeout,
        "progress_within": progress_within,
        "retention_failed": retention_failed,
    }
    policy = _policy(problems, max_attempts, max_crashes, backoff, on_crash=on_crash, durations=limits)
    takes_job, payload = False, None
    try:
        takes_job = takes_job_of(function, problems, "a process" if process is True else "a thread")
        payload = PayloadType.of(function, skip=int(takes_job))
    except ConfigurationError as error:
        problems += error.problems
    except (TypeError, ValueError):  # no signature: _problems_of_function reports it
        pass
    if key is not None and payload is not None and key not in payload.fields:
        problems.append(f"key={key!r}: use the name of a parameter of the handler")
    problems += problems_of_uniqueness(unique_by, unique_until, known=() if payload is None else payload.fields)
    if problems or policy is None or payload is None:
        raise ConfigurationError([problem if problem.startswith("task ") else f"task {name}: {problem}" for problem in problems])
    return TaskDefinition(
        name=name,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        takes_job=takes_job,
        queue=queue,
        priority=priority,
        policy=structs.replace(policy, has_rescue_hook=on_rescue is not None),
        retry_for=retried,
        fail_for=failed,
        payload=payload,
        process=process,
        on_rescue=on_rescue,
        key=key,
        limit=limit,
        on_changed_steps=ChangePolicy(on_changed_steps),
        sensitive=frozenset(sensitive) | secret_fields(annotations_of(function).values()),
        unique_by=None if unique_by is None else tuple(unique_by),
        uniqueness=Uniqueness(period, unique_until == "started"),
    )


def problems_of_names(task: object, queue: object, priority: object) -> list[str]:
    """Return what is wrong with a task's name, its queue and its priority, one sentence each."""
    found = []
    if not isinstance(task, str) or not NAME.fullmatch(task):
        found.append(f"name={shortened(repr(task))}: use 1 to 200 letters, digits and _ . : -")
    if not isinstance(queue, str) or not NAME.fullmatch(queue):
        found.append(f"queue={shortened(repr(queue))}: use 1 to 200 letters, digits and _ . : -")
    if type(priority) is not int or priority not in PRIORITIES:
        found.append(f"priority={priority!r}: use an integer of at most 32 bits; smaller runs sooner")
    return found


def _problems_of_function(function: object) -> list[str]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return ["a handler returns its result; it cannot yield"]
    if inspect.isclass(function) or not callable(function) or not hasattr(function, "__name__"):
        return [f"{function!r} is not a function: decorate a `def` or an `async def`"]
    return []


def _problems_of_process(function: object, process: object) -> list[str]:
    if not isinstance(process, bool):
        return [f"process={process!r}: use True to run the handler in a separate process, or False"]
    if process and inspect.iscoroutinefunction(function):
        return ["process=True is for blocking code: write `def` with a `SyncJob`, or leave process=True out"]
    return []


def _problems_of_hook(function: object, hook: object) -> list[str]:
    if hook is None:
        return []
    if not callable(hook) or inspect.isclass(hook) or inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
        return [f"on_rescue={hook!r}: use a function of a connection and a RescuedJob"]
    found = []
    try:
        inspect.signature(hook).bind(None, None)
    except (TypeError, ValueError):
        found.append("on_rescue: it is called with a connection and a RescuedJob; write `repair(connection, job)`")
    is_async = inspect.iscoroutinefunction(function)
    if inspect.iscoroutinefunction(hook) is not is_async:
        wanted, given = ("async def", "`async def`") if is_async else ("def", "no `async def`")
        found.append(f"on_rescue: write `{wanted} repair(connection, job)`, because the handler is {given}")
    return found


def _errors(option: str, given: object, problems: list[str]) -> tuple[type[BaseException], ...]:
    kinds = given if isinstance(given, (tuple, list)) else (given,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        problems.append(f"{option}={given!r}: use exception classes, for example {option}=(TimeoutError,)")
        return ()
    return tuple(kinds)


def _policy(
    problems: list[str],
    max_attempts: int,
    max_crashes: int,
    backoff: Backoff | None,
    *,
    on_crash: str,
    durations: Mapping[str, Duration | None],
) -> Policy | None:
    before = len(problems)
    for option, number in (("max_attempts", max_attempts), ("max_crashes", max_crashes)):
        if type(number) is not int:
            problems.append(f"{option}={number!r}: use an integer")
    if backoff is not None and not isinstance(backoff, Backoff):
        problems.append(f"backoff={backoff!r}: use Backoff.exponential('1s', cap='1h'), .linear(…) or .fixed(…)")
    if on_crash not in set(CrashPolicy):
        problems.append(f"on_crash={on_crash!r}: use 'retry', 'fail' or 'hold'")
    given = dict[str, float | None]()
    for option, duration in durations.items():
        try:
            given[option] = None if duration is None else seconds(duration)
        except ValueError as error:
            problems.append(f"{option}: {error}")
    if durations["retention"] is None:
        problems.append("retention=None: use a duration such as '7d'; '0s' keeps only the outcome, for 15 minutes")
    if len(problems) > before:
        return None
    policy = Policy(
        max_attempts,
        max_crashes,
        backoff or Backoff.exponential("1s", cap="1h"),
        CrashPolicy(on_crash),
        given["retention"] or 0.0,
        given["progress_within"],
        given["timeout"],
        retention_failed=given["retention_failed"],
    )
    problems += policy.problems()
    return policy
