"""The jobs of ``bench.watched``, as its worker processes import them. With ``BENCH_TRACED`` their App makes spans, 1 % of them sampled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any

from holdfast import App, Task

SAMPLED = 0.01
PAUSE = 0.01
KINDS = ("charge", "render", "sync", "mail", "report")


def define(app: App) -> dict[str, Task[[int], Coroutine[Any, Any, None], [int]]]:
    """Add the tasks to an App: one that returns at once, one that waits for 10 ms, and one that fails with messages that differ."""

    @app.task
    async def nothing(number: int) -> None:
        pass

    @app.task
    async def brief(number: int) -> None:
        await asyncio.sleep(PAUSE)

    @app.task(max_attempts=1)
    async def broken(number: int) -> None:
        raise RuntimeError(f"no. {number} of {KINDS[number % len(KINDS)]} is broken")

    return {"nothing": nothing, "brief": brief}


def trace(app: App) -> None:
    """Make spans of the App's jobs, and throw away what would be exported."""
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: PLC0415 - only where it is measured
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415

    from holdfast.integrations.opentelemetry import instrument_app  # noqa: PLC0415

    class Nowhere(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(SAMPLED))
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    instrument_app(app, tracer_provider=provider)


app = App(os.environ.get("HOLDFAST_URL", "memory://"))
define(app)
if os.environ.get("BENCH_TRACED"):
    trace(app)
