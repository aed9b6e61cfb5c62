"""The job that is timed, and the places in a worker process where it is."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from holdfast import App
from holdfast._core.requests import ClaimRequest
from holdfast._engine.worker.exchange import Exchange
from holdfast._engine.worker.finished_runs import FinishedRun
from holdfast._engine.worker.worker import Worker
from holdfast._ports.transport import Hint

app = App(os.environ.get("HOLDFAST_URL", "memory://"))
_at = dict.fromkeys(("hint", "claim", "answer"), 0.0)
"""When the worker last received a hint, sent a claim, and received an answer that has a job; seconds of the monotonic clock."""


@app.task
async def ping(sent: float) -> None:
    """Write when this job was sent, when each place was passed, and when it began."""
    line = " ".join(map(repr, (sent, *_at.values(), time.monotonic())))
    with open(os.environ["BENCH_REPORTS"], "a", encoding="ascii") as reports:  # noqa: ASYNC230 - one line
        reports.write(f"{line}\n")


def _stamp_hints() -> None:
    hinted = Worker._hinted

    def stamped(worker: Worker, hint: Hint) -> None:
        _at["hint"] = time.monotonic()
        hinted(worker, hint)

    Worker._hinted = stamped  # type: ignore[method-assign, assignment]


def _stamp_claims() -> None:
    exchanged = Exchange._exchange

    async def stamped(exchange: Exchange, batch: Sequence[FinishedRun], request: ClaimRequest | None) -> int | None:
        sent = time.monotonic()
        claimed = await exchanged(exchange, batch, request)
        if claimed:
            _at["claim"], _at["answer"] = sent, time.monotonic()
        return claimed

    Exchange._exchange = stamped  # type: ignore[method-assign, assignment]


if "BENCH_REPORTS" in os.environ:
    _stamp_hints()
    _stamp_claims()
