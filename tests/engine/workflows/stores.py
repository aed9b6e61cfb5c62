"""The store on which a test of workflows runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast import App

_urls = ["memory://"]
_apps = list[App]()


@contextmanager
def at(url: str) -> Iterator[None]:
    """Make Apps of this URL, and close them at the end."""
    _urls.append(url)
    try:
        yield
    finally:
        _urls.pop()
        while _apps:
            _apps.pop().close()


def new_app(**options: Any) -> App:
    """Return an App on the empty store of the test; Apps of one test share a store that is not in memory."""
    _apps.append(App(_urls[-1], **options))
    return _apps[-1]
