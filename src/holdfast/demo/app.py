"""The App that the demo's workers load: HOLDFAST_URL names its store, HOLDFAST_DEMO_TRANSPORT how its workers wake each other."""

import os
from collections.abc import Coroutine
from typing import Any, NamedTuple

from holdfast import App, Task
from holdfast.demo.analysis import BadRepository
from holdfast.demo.comparison import compare
from holdfast.demo.task import analyze

TRANSPORT = "HOLDFAST_DEMO_TRANSPORT"
TTL = "3s"


def __getattr__(name: str) -> App:
    """Make ``app`` when a worker asks for it, so that importing this module does nothing."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    app = open_app(os.environ.get("HOLDFAST_URL", ""), os.environ.get(TRANSPORT) or None)
    tasks_of(app)
    globals()["app"] = app
    return app


class Tasks(NamedTuple):
    """The tasks of the demo, which belong to one App."""

    analyze: Task[..., Coroutine[Any, Any, dict[str, object]], ...]
    compare: Task[..., dict[str, object], ...]


def tasks_of(app: App) -> Tasks:
    """Register the tasks of the demo with an App."""
    return Tasks(app.task(fail_for=(BadRepository,), progress_within="5m")(analyze), app.task(compare))


def is_served(url: str) -> bool:
    """Return whether a server keeps the jobs, so that machines can share them."""
    return url.partition("://")[0] not in ("sqlite", "memory")


def open_app(url: str, transport: str | None = None) -> App:
    """Open an App on that store; on a server as if each supervisor had a separate machine, where only leases show which worker died."""
    if is_served(url):
        return App(url, transport=transport, ttl=TTL, recovery_interval="0.5s", reconcile="off")
    return App(url, transport=transport)
