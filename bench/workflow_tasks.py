"""The tasks of ``bench.workflows``, as its worker processes import them."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from typing import Any, NamedTuple

from holdfast import App, Task


class Tasks(NamedTuple):
    """``plain`` is a job or a node that takes nothing; ``joining`` takes the results of three nodes."""

    plain: Task[[int], Coroutine[Any, Any, int], [int]]
    joining: Task[[int, int, int], Coroutine[Any, Any, int], [int, int, int]]


def define(app: App) -> Tasks:
    """Add the tasks to an App: they return at once, so that only Holdfast and the store have work."""

    @app.task
    async def plain(number: int) -> int:
        return number

    @app.task
    async def joining(first: int, second: int, third: int) -> int:
        return max(first, second, third)

    return Tasks(plain, joining)


app = App(os.environ.get("HOLDFAST_URL", "memory://"))
define(app)
