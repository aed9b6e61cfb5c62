"""What is measured: each act on one entry in a fresh store, the same for all."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable

from msgspec import Struct

from bench.compare.processes import Caller, Site, Stuck, calling, go_on, stop, working
from bench.compare.watch import FileWatch, Watch, watch
from bench.figures import Figures

TIMEOUT = 60.0
POLL = 0.005
SETTLE = 1.0
"""Seconds in which the other workers start, too, after one of them has run a job."""
SIZES = {"4 KB": 4096, "64 KB": 65536}


class Sizes(Struct, frozen=True, kw_only=True):
    """How many jobs each figure takes."""

    one_by_one: int = 1_000
    callers: int = 3_000
    bulk: int = 30_000
    pings: int = 100
    part: float = 1.0
    """Of the jobs that an entry drains."""


QUICK = Sizes(one_by_one=300, callers=1_000, bulk=10_000, pings=50, part=0.3)


def enqueues(site: Site, sizes: Sizes) -> Figures:
    """Enqueue one by one, by 10 and 100 callers, and in bulk; jobs per second."""
    share = site.peer.share
    one, callers, bulk = (round(count * share) for count in (sizes.one_by_one, sizes.callers, sizes.bulk))
    with calling(site) as caller:
        caller.act("enqueue", count=50, callers=1)  # connections and caches are there
        found = {"one by one": one / caller.act("enqueue", count=one, callers=1)}
        if not site.peer.head:
            return found  # a driver has no workers, and one connection has one caller
        for number in (10, 100):
            caller.act("enqueue", count=number, callers=number)
            found[f"{number} callers"] = callers / caller.act("enqueue", count=callers, callers=number)
        found["bulk"] = bulk / caller.act("bulk", count=bulk)
    return found


def drains(site: Site, sizes: Sizes) -> Figures:
    """Drain with one worker process and with two; jobs per second."""
    jobs = _part(site.entry.jobs, sizes)
    with calling(site) as caller:
        return {f"drain {processes}": jobs / _drain(site, caller, processes, jobs)[1] for processes in (1, 2)}


def latencies(site: Site, sizes: Sizes) -> Figures:
    """Time each job from the call of enqueue to the first line of its handler, in an idle worker; milliseconds."""
    found: Figures = {}
    with calling(site) as caller, working(site, 1):
        caller.act("ping", count=1, rate=50)
        _reported(site, 1)
        for rate, count in ((50, sizes.pings), (500, sizes.pings * 3)):
            before = len(_reports(site))
            os.sync()  # no figure includes the disk writes of what was before
            caller.act("ping", count=count, rate=rate)
            _reported(site, before + count)
            times = sorted(float(line) * 1000 for line in _reports(site)[before:])
            found |= {f"p50 at {rate}": statistics.median(times), f"p99 at {rate}": times[int(len(times) * 0.99)]}
    return found


def payloads(site: Site, sizes: Sizes) -> Figures:
    """Enqueue in bulk and drain with larger payloads; jobs per second. A hundred bytes are the other figures."""
    found: Figures = {}
    with calling(site) as caller:
        for name, size in SIZES.items():
            jobs = _part(min(site.entry.jobs, 20_000 if size < 10_000 else 2_000), sizes)
            enqueued, drained = _drain(site, caller, 1, jobs, size)
            found |= {f"bulk {name}": jobs / enqueued, f"drain {name}": jobs / drained}
    return found


Act = Callable[[Site, Sizes], Figures]
ACTS: dict[str, Act] = {"drain": drains, "enqueue": enqueues, "latency": latencies, "payload": payloads}
NAMES: dict[str, tuple[str, ...]] = {
    "drain": ("drain 1", "drain 2"),
    "enqueue": ("one by one", "10 callers", "100 callers", "bulk"),
    "latency": ("p50 at 50", "p99 at 50", "p50 at 500", "p99 at 500"),
    "payload": tuple(f"{act} {size}" for size in SIZES for act in ("bulk", "drain")),
}


def _part(jobs: int, sizes: Sizes) -> int:
    return max(min(20, jobs), round(jobs * sizes.part))


def nothing(act: str) -> Figures:
    """Return the figures of a round in which the peer did not do what it was asked for."""
    return dict.fromkeys(NAMES[act], math.nan)


def _drain(site: Site, caller: Caller, processes: int, jobs: int, size: int = 0) -> tuple[float, float]:
    """Return the seconds of the bulk enqueue, and those from a worker's first claim until the store knows that all jobs have run.

    The workers have started and run a job. They are stopped while the queue is filled, so that no start of a process is measured.
    """
    look, before = watch(site.url), len(_reports(site))
    try:
        with working(site, processes) as workers:
            caller.act("ping", count=1, rate=50)
            _reported(site, before + 1)
            time.sleep(SETTLE)
            _stop(look, workers)
            enqueued = caller.act("bulk", count=jobs, size=size)
            first = look.ask(site.peer.head)
            go_on(workers)
            _until(site, lambda: look.ask(site.peer.head) != first)
            began = time.perf_counter()
            _until(site, lambda: not look.ask(site.peer.left))
            return enqueued, time.perf_counter() - began
    finally:
        look.close()


def _stop(look: Watch, workers: list[int]) -> None:
    """Stop the workers, but not while one of them holds the lock of a file of SQLite."""
    stop(workers)
    while isinstance(look, FileWatch) and not look.is_free():
        go_on(workers)
        time.sleep(POLL)
        stop(workers)


def _reports(site: Site) -> list[str]:
    return site.reports.read_text().splitlines() if site.reports.exists() else []


def _reported(site: Site, count: int) -> None:
    _until(site, lambda: len(_reports(site)) >= count)


def _until(site: Site, is_so: Callable[[], bool]) -> None:
    """Look often, but not so often that it costs the worker."""
    timeout = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > timeout:
            raise Stuck(f"nothing for {TIMEOUT:g} s:\n{site.log()}")
        time.sleep(POLL)
