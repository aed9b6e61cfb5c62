"""The task of ``bench.lanes``: it does nothing."""

from __future__ import annotations

import os

from holdfast import App

app = App(os.environ["BENCH_URL"])


@app.task(name="job", key="tenant")
async def job(tenant: str) -> None:
    """Return at once: only the way to the handler is measured."""
