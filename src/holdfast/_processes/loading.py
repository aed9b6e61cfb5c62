"""``module:app`` to an App. Every error is one line that names the remedy."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import holdfast._engine.client.client  # noqa: F401 - so that the first handler that enqueues need not load it
from holdfast._engine.tasks.imports import attribute_of, import_module
from holdfast._processes.reaching import announcing_outage
from holdfast.app import App
from holdfast.errors import ConfigurationError

DEFAULT_ATTRIBUTE = "app"


def load_app(target: str) -> App:
    """Import the App at ``module:attribute`` (``app`` when left out), with the current folder first on the path, and its ``imports``.

    Raises ``ConfigurationError`` when there is none.
    """
    name, _, attribute = target.partition(":")
    attribute = attribute or DEFAULT_ATTRIBUTE
    dotted = ".".join(Path(name).with_suffix("").parts)
    if name.endswith(".py") and _is_dotted(dotted) and Path(name).is_file():
        raise ConfigurationError([f"{target!r} is a file: write {dotted}:{attribute}"])
    if not _is_dotted(name):
        raise ConfigurationError([f"{target!r} is not module:app: write a dotted module name, such as shop.tasks:app"])
    module = _import(name)
    found = attribute_of(module, attribute)
    if isinstance(found, App):
        found.load()
        return found
    wrong = f"is {type(found).__name__}, not an App" if found is not None else "does not exist"
    apps = [f"{name}:{key}" for key, value in vars(module).items() if issubclass(type(value), App)]
    remedy = f"there is {', '.join(apps)}" if apps else f"{name} has no App; write app = App('sqlite:///jobs.db') there"
    raise ConfigurationError([f"{name}:{attribute} {wrong}; {remedy}"])


def _missing_file(url: str) -> str | None:
    """Return the file of a SQLite store if its folder exists and it does not; opening it would make an empty one.

    Of a folder in which this user can make no file, opening reports more.
    """
    scheme, _, path = url.partition(":///")
    if scheme != "sqlite" or not Path(path).parent.is_dir() or os.path.lexists(path):
        return None
    return path if os.access(Path(path).parent, os.R_OK | os.W_OK | os.X_OK) else None


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _import(name: str) -> ModuleType:
    folder = os.getcwd()
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    return import_module(name, f"in {folder} or installed: check name and folder")


@contextmanager
def opened(target: str | None, url: str | None = None, *, makes: bool = False) -> Iterator[App]:
    """Open the App that ``--app`` or ``--url`` names, else ``HOLDFAST_APP`` or ``HOLDFAST_URL``, and close it in the end.

    ``makes``: a store that does not exist may be made. Without it, a file that does not exist is a ``ConfigurationError``.
    """
    if target and url:
        raise ConfigurationError(["--app and --url: use one of them"])
    if not target and not url:
        target, url = os.environ.get("HOLDFAST_APP"), os.environ.get("HOLDFAST_URL")
    if not target and not url:
        raise ConfigurationError(
            ["no store: pass --app module:app or --url sqlite:///jobs.db, or set HOLDFAST_APP or HOLDFAST_URL"]
        )
    app = load_app(target) if target else App(url)
    if not makes and (missing := _missing_file(app.settings.url)):
        raise ConfigurationError([f"{missing} does not exist: the first enqueue, worker or `holdfast migrate` makes it"])
    try:
        with announcing_outage(app.settings.url):
            yield app
    finally:
        app.close()
