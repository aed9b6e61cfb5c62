"""The jobs of ``bench.handlers``: one App for each kind of handler, as its worker processes import them. They return at once."""

from __future__ import annotations

import os

from holdfast import App

URL = os.environ.get("HOLDFAST_URL", "memory://")
loop_app, thread_app, process_app, mixed_app = App(URL), App(URL), App(URL), App(URL)


@loop_app.task
async def on_loop(number: int) -> None:
    pass


@thread_app.task
def in_thread(number: int) -> None:
    pass


@process_app.task(process=True)
def in_process(number: int) -> None:
    pass


@mixed_app.task
def beside_others(number: int) -> None:
    pass


@mixed_app.task
async def other(number: int) -> None:
    pass
