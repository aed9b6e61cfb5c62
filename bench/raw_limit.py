"""``python -m bench.raw_limit``: what the engine costs, as a part of what its own statements reach through the raw driver.

Each round measures each figure on the engine and on the bare statements, in turn first, each on an empty store. A ratio is the median
of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench.handlers import drain, places, rate_in_file
from bench.peers import BULK
from bench.peers.holdfast_tasks import jobs_of
from bench.prefetch import rate
from bench.raw_statements import PostgresStatements, SqliteStatements, Statements
from holdfast import App

STATEMENTS: dict[str, type[Statements]] = {"postgres": PostgresStatements, "sqlite": SqliteStatements}
EXCHANGE = 500
"""Jobs in one exchange of the bare statements: a worker that claims ahead has up to a thousand, in two halves."""
WARM_UP = 50


class Sizes(Struct, frozen=True):
    """How many jobs each figure takes."""

    bulk: int
    single: int
    drain: int


async def engine_in_bulk(url: str, count: int, *, is_iterator: bool) -> float:
    """Return the jobs per second of calls with a list of 1,000 payloads each, or of one call with an iterator."""
    app = App(url)
    task, _ = jobs_of(app)
    await task.aenqueue(0)
    began = time.perf_counter()
    if is_iterator:
        await task.aenqueue_many({"n": n} for n in range(count))
    else:
        for start in range(0, count, BULK):
            await task.aenqueue_many([{"n": n} for n in range(start, min(start + BULK, count))])
    found = count / (time.perf_counter() - began)
    await app.aclose()
    return found


async def engine_one_by_one(url: str, count: int) -> float:
    """Return the jobs per second of one caller who awaits each."""
    app = App(url)
    task, _ = jobs_of(app)
    for n in range(WARM_UP):
        await task.aenqueue(n)
    began = time.perf_counter()
    for n in range(count):
        await task.aenqueue(n)
    found = count / (time.perf_counter() - began)
    await app.aclose()
    return found


async def engine_drain(url: str, count: int) -> float:
    """Return the jobs per second of ``holdfast worker`` with default settings, by the finish times of the jobs."""
    await asyncio.to_thread(drain, url, "loop_app", "on_loop", count)
    return rate_in_file(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite") else await rate(url)


async def raw(kind: type[Statements], act: str, url: str, count: int) -> float:
    """Return the jobs per second of the bare statements."""
    app = App(url)
    task, _ = jobs_of(app)
    statements = await kind.on(url, task.name, task.definition.policy)
    jobs = statements.jobs(count)
    size = 1 if act == "single" else BULK
    parameters = [statements.prepared(jobs[start : start + size]) for start in range(0, count, size)]
    for warm in [statements.prepared(statements.jobs(1)) for _ in range(WARM_UP if act == "single" else 0)]:
        await statements.enqueue(warm)
    began = time.perf_counter()
    for each in parameters:
        await statements.enqueue(each)
    if act == "drain":
        began = time.perf_counter()
        await statements.drain(count, EXCHANGE)
    found = count / (time.perf_counter() - began)
    await statements.close()
    await app.aclose()
    return found


Act = Callable[[str], Awaitable[float]]


def figures(kind: type[Statements], sizes: Sizes) -> dict[str, tuple[Act, Act]]:
    """Return each figure: the engine, and the bare statements."""
    bulk = partial(raw, kind, "bulk", count=sizes.bulk)
    return {
        "enqueue many, an iterator": (partial(engine_in_bulk, count=sizes.bulk, is_iterator=True), bulk),
        "enqueue many, lists of 1,000": (partial(engine_in_bulk, count=sizes.bulk, is_iterator=False), bulk),
        "enqueue one by one": (
            partial(engine_one_by_one, count=sizes.single),
            partial(raw, kind, "single", count=sizes.single),
        ),
        "drain": (partial(engine_drain, count=sizes.drain), partial(raw, kind, "drain", count=sizes.drain)),
    }


async def measure(urls: Iterator[str], acts: dict[str, tuple[Act, Act]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return the rates of engine and bare statements, for each figure and round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in acts}
    for number in range(rounds):
        for name, (engine, bare) in acts.items():
            rates: dict[int, float] = {}
            for side, act in ((0, engine), (1, bare)) if number % 2 else ((1, bare), (0, engine)):
                url = next(urls)
                app = App(url)
                await app.amigrate()
                await app.aclose()
                rates[side] = await act(url)
            found[name].append((rates[0], rates[1]))
            print(f"round {number + 1}: {name}: {rates[0]:,.0f} of {rates[1]:,.0f} jobs/s", flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and print; a benchmark measures, and a test judges."""
    parser = argparse.ArgumentParser("python -m bench.raw_limit", description="Compare the engine with its bare statements.")
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--size", type=float, default=1.0, help="for a quick look, a part of all jobs [1.0]")
    parser.add_argument("--only", nargs="*", help="figures whose names have one of these words [all]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    sizes = Sizes(*(max(1000, int(options.size * count)) for count in (100_000, 4_000, 50_000)))
    acts = figures(STATEMENTS[options.store], sizes)
    acts = {name: act for name, act in acts.items() if not options.only or any(word in name for word in options.only)}
    os.environ["BENCH_REPORTS"] = os.devnull
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-raw-limit-") as folder,
        places(options.store, Path(folder)) as urls,
    ):
        found = asyncio.run(measure(urls, acts, options.rounds))
    print(f"{options.store}, at default settings: engine / raw driver")
    for name, rates in found.items():
        engine, bare = (statistics.median(side) for side in zip(*rates, strict=True))
        ratio = statistics.median(one / other for one, other in rates)
        print(f"{name}: {engine:,.0f} / {bare:,.0f} jobs/s = {ratio:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
