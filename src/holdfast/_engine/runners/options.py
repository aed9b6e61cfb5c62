"""When runner processes are replaced and killed, and what each receives at its start."""

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast.errors import ConfigurationError

Number = TypeVar("Number")

SCRIPT = ("__main__", "__mp_main__")
"""Names of what was started; the second one is multiprocessing's."""


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B)\s*")
_POWERS = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}

Size = int | str
"""Bytes, or text with a unit: ``"512MiB"``, ``"2GB"``."""


class Runners:
    """How long a process for ``process=True`` handlers is used, and how it ends; for ``App(runners=…)``.

    Native libraries leak, and one leaking handler must not end the whole worker. So each process is judged after each job, and its
    successor starts before it leaves.

    ``max_jobs``, ``max_memory`` and ``max_growth`` (since its first job ended; ``None``: no limit) replace the process.
    ``on_start`` is called in each process before its first job, in the thread of the handlers; if it raises, no job is charged, and
    the event ``runner.unavailable`` reports it. ``start_timeout``: until it is ready. ``kill_after``: between a passed
    limit of the job and the kill of its process. ``ConfigurationError`` has every problem.

    >>> Runners(max_memory="512MiB", kill_after="0s").max_memory
    536870912
    """

    __slots__ = ("kill_after", "max_growth", "max_jobs", "max_memory", "on_start", "start_timeout")

    def __init__(
        self,
        *,
        max_jobs: int = 1000,
        max_memory: Size | None = None,
        max_growth: Size | None = "256MiB",
        on_start: Callable[[], object] | None = None,
        start_timeout: Duration = "2m",
        kill_after: Duration = "5s",
    ) -> None:
        problems: list[str] = []
        if type(max_jobs) is not int or max_jobs < 1:
            problems.append(f"max_jobs={max_jobs!r}: use a whole number from 1")
        if on_start is not None and (not callable(on_start) or inspect.iscoroutinefunction(on_start)):
            problems.append(f"on_start={on_start!r}: pass a function without arguments, written with `def`")
        self.max_jobs, self.on_start = max_jobs, on_start
        self.max_memory = _read(problems, "max_memory", max_memory, bytes_of)
        self.max_growth = _read(problems, "max_growth", max_growth, bytes_of)
        self.start_timeout: float = _read(problems, "start_timeout", start_timeout, seconds) or 0.0
        self.kill_after: float = _read(problems, "kill_after", kill_after, seconds) or 0.0
        if not problems and not self.start_timeout:
            problems.append("start_timeout: must be greater than zero, for example '2m'")
        if problems:
            raise ConfigurationError([f"runners: {problem}" for problem in problems])

    def wear(self, *, jobs: int, memory: int, growth: int) -> float:
        """Return how much of its first limit a process has used with that number of jobs and of bytes; 1.0: all of it."""
        used = ((jobs, self.max_jobs), (memory, self.max_memory), (growth, self.max_growth))
        return max(value / limit for value, limit in used if limit is not None)


def bytes_of(size: Size) -> int:
    """Return a size in bytes; ``ValueError``, naming the accepted forms, for any other value.

    >>> bytes_of("512MiB"), bytes_of("1.5GB"), bytes_of(4096)
    (536870912, 1500000000, 4096)
    """
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if type(size) is int and size > 0:
        return size
    if found is None or not float(found[1]):
        raise ValueError(f"{size!r} is not a size: use bytes, or a number and a unit, for example '512MiB' or '2GB'")
    return int(float(found[1]) * (1024 if "i" in found[2] else 1000) ** _POWERS[found[2][0]])


def _read(problems: list[str], name: str, value: Any, read: Callable[[Any], Number]) -> Number | None:
    try:
        return None if value is None else read(value)
    except ValueError as error:
        problems.append(f"{name}: {error}")
        return None


class RunnerOptions(Struct, frozen=True, kw_only=True):
    """``target``: the ``module:app`` to import, ``modules``: what else. ``path``: where modules are found, if not as for a worker."""

    target: str
    modules: tuple[str, ...] = ()
    path: tuple[str, ...] | None = None
    log_level: str = "info"
    log_format: str = "text"

    def encode(self) -> str:
        """Return the options as one command-line argument."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, argument: str) -> "RunnerOptions":
        """Read the options from a command-line argument."""
        return msgspec.json.decode(argument, type=cls)


def has_process_tasks(registry: Registry) -> bool:
    """Return whether any handler runs in a separate process."""
    return any(True for _ in _process_tasks(registry))


def importable(app: object, registry: Registry) -> str:
    """Return where another process can import this App from; ``ConfigurationError`` if its ``process=True`` tasks cannot run there.

    An embedded worker does not know its ``module:app``. The App stands in a module, most likely in that of a handler.
    """
    for module in (*_process_tasks(registry), *sys.modules):
        for name, value in tuple(vars(sys.modules.get(module, object)).items()):
            if value is app and (found := _name_of(module)):
                return f"{found}:{name}"
    tasks = ", ".join(name for name in registry.names() if _runs_in_process(registry, name))
    raise ConfigurationError(
        [
            f"process=True on {tasks}: a runner process must import the App; keep it and its tasks at the top of a module, not in a script"
        ]
    )


def homes(registry: Registry) -> tuple[str, ...]:
    """Return the modules of the handlers that run in processes; ``ConfigurationError`` if one is a script.

    The App's module need not import them all, and without it jobs of the others would wait indefinitely."""
    names = {module: _name_of(module) for module in _process_tasks(registry)}
    if None in names.values():
        raise ConfigurationError(["process=True in a script: a runner process must import the handler; keep it in a module"])
    return tuple(name for name in names.values() if name is not None)


def _name_of(module: str) -> str | None:
    if module not in SCRIPT:
        return module
    spec = sys.modules[module].__spec__  # python -m: the same code has a name
    return None if spec is None else spec.name


def _process_tasks(registry: Registry) -> Iterable[str]:
    """Yield the module of each handler that runs in a process."""
    definitions = (registry.get(name) for name in registry.names() if _runs_in_process(registry, name))
    return (task.function.__module__ for task in definitions if task is not None)


def _runs_in_process(registry: Registry, name: str) -> bool:
    task = registry.get(name)
    return task is not None and task.kind is RunnerKind.PROCESS
