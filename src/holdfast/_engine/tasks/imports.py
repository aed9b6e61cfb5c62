"""The user's own modules: imported by name, and failures reported in one line."""

import importlib
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from types import ModuleType

from holdfast.errors import ConfigurationError


def import_module(name: str, remedy: str) -> ModuleType:
    """Import and return the module. Raises ``ConfigurationError``, with the remedy, if there is none or its code fails."""
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is not part of a command's answer
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError([f"there is no module {error.name!r} {remedy}"]) from None
        raise ConfigurationError([_failure(name, error)]) from error
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError([_failure(name, error)]) from error


def attribute_of(module: ModuleType, name: str) -> object:
    """Return what a module has by that name, or None. A module that makes it then may fail like one that is imported."""
    try:
        with redirect_stdout(sys.stderr):
            return getattr(module, name, None)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError([_failure(f"{module.__name__}:{name}", error)]) from error


def import_all(names: Sequence[str]) -> None:
    """Import the modules that ``App(imports=…)`` names. One ``ConfigurationError`` names all that cannot be imported."""
    problems = []
    for name in names:
        try:
            import_module(name, "to import: correct App(imports=…), or install it")
        except ConfigurationError as error:
            problems += [f"imports={name!r}: {problem}" for problem in error.problems]
    if problems:
        raise ConfigurationError(problems)


def problems_of_imports(names: object) -> list[str]:
    """Return what is wrong with the value of ``App(imports=…)``, without importing anything."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        return [f"imports={names!r}: use a tuple of module names, for example imports=('shop.tasks',)"]
    return [
        f"imports={name!r}: write a dotted module name, such as 'shop.tasks'"
        for name in names
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split("."))
    ]


def _failure(name: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames[1:] else ""
    return f"importing {name} failed: {type(error).__name__}: {error}{where}"
