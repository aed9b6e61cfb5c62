"""Code that runs on each new App of a process, for libraries that instrument a program as a whole."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from holdfast.app import App


def on_new_app(instrument: Callable[[App], object]) -> Callable[[], None]:
    """Call the function with each App that is made from now on; return what undoes that. Apps that exist are left alone."""
    original = App.__init__

    @wraps(original)
    def made(self: App, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        instrument(self)

    def undo() -> None:
        App.__init__ = original  # type: ignore[method-assign]

    App.__init__ = made  # type: ignore[method-assign]
    return undo
