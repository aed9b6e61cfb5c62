"""The job of ``bench.prefetch``, as its worker processes import it."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any

from holdfast import App, Task


def define(app: App) -> Task[[int], Coroutine[Any, Any, None], [int]]:
    """Add the task to an App: it returns at once, so that only Holdfast and the store have work."""

    @app.task
    async def nothing(number: int) -> None:
        pass

    return nothing


app = App(os.environ.get("HOLDFAST_URL", "memory://"))
define(app)
