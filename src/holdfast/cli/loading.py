"""``module:app`` to an App. Whatever goes wrong is said in a line, with what to do about it."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from types import ModuleType

from holdfast.app import App
from holdfast.errors import ConfigurationError

DEFAULT_ATTRIBUTE = "app"


def load_app(target: str) -> App:
    """The App at ``module:attribute``, ``app`` when left out, with the current folder first on the path.

    ``ConfigurationError`` when there is none.
    """
    name, _, attribute = target.partition(":")
    attribute = attribute or DEFAULT_ATTRIBUTE
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError([f"{target!r} is no module:app: write a dotted module name, such as shop.tasks:app"])
    module = _import(name)
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    wrong = f"is {type(found).__name__}, not an App" if found is not None else "does not exist"
    apps = [f"{name}:{key}" for key, value in vars(module).items() if isinstance(value, App)]
    remedy = f"there is {', '.join(apps)}" if apps else f"{name} has no App; write app = App('sqlite:///jobs.db') there"
    raise ConfigurationError([f"{name}:{attribute} {wrong}; {remedy}"])


def _import(name: str) -> ModuleType:
    folder = os.getcwd()
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):  # what a module prints is no part of a command's answer
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                [f"there is no module {error.name!r} in {folder} or installed: check name and folder"]
            ) from None
        raise ConfigurationError([_failure(name, error)]) from error
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError([_failure(name, error)]) from error


def _failure(name: str, error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames[1:] else ""
    return f"importing {name} failed: {type(error).__name__}: {error}{where}"


@contextmanager
def opened(target: str | None, url: str | None = None) -> Iterator[App]:
    """The App to ask: ``--app`` or ``--url`` as given, else ``HOLDFAST_APP`` or ``HOLDFAST_URL``; closed in the end."""
    if target and url:
        raise ConfigurationError(["--app and --url: use one of them"])
    if not target and not url:
        target, url = os.environ.get("HOLDFAST_APP"), os.environ.get("HOLDFAST_URL")
    if not target and not url:
        raise ConfigurationError(
            ["no store: pass --app module:app or --url sqlite:///jobs.db, or set HOLDFAST_APP or HOLDFAST_URL"]
        )
    app = load_app(target) if target else App(url)
    try:
        yield app
    finally:
        app.close()
