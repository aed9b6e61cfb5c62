"""What a runner process receives at its start."""

import sys
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from holdfast._engine.tasks.registry import Registry, RunnerKind
from holdfast.errors import ConfigurationError

SCRIPT = ("__main__", "__mp_main__")
"""Names of what was started; the second one is multiprocessing's."""


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
