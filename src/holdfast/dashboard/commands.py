"""Commands as pages show them: as a shell takes them, with the App or the store that the dashboard was started for."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

from holdfast.app import App

Complete = Callable[[str], str]
_of: "WeakKeyDictionary[App, Complete]" = WeakKeyDictionary()


def set_commands(app: App, complete: Complete) -> None:
    """Have the commands in remedies of an App completed."""
    _of[app] = complete


def commands_of(app: App) -> Complete:
    """Return what completes the commands in a remedy; a mounted dashboard does not know how its store is named in a shell."""
    return _of.get(app, str)
