"""``app.rows`` beside a loop that one writes by hand: the same table, the same work, one process each, in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from bench.figures import ROOT
from bench.races import Ground
from bench.rounds import Book, Limits, LogLine
from bench.rows.cpu import used_by
from bench.rows.site import Site
from holdfast import App

POLL, TIMEOUT = 0.005, 300.0
BATCH = 1000
HAND, OURS, OWNED = "by hand", "app.rows", "app.rows, owner="
CPU = "per second of computing"
WORKS = {"done": "batch.done(batch.keys)", "counted": "with a count, in batch.transaction()"}

_TABLE = """
CREATE TABLE pastes (
    id {int} PRIMARY KEY, status text NOT NULL, claimed_at {stamp}, claimed_by text, content bigint NOT NULL, expires_at {stamp} NOT NULL
)
"""
_FILL = {
    "postgres": """
        INSERT INTO pastes SELECT n, 'LIVE', NULL, NULL, n * 7919, now() - interval '1 day' + n * interval '1 millisecond'
        FROM generate_series(1, ?) AS n
    """,
    "sqlite": """
        WITH RECURSIVE ns (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ns WHERE n < ?)
        INSERT INTO pastes
        SELECT n, 'LIVE', NULL, NULL, n * 7919, strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day', (n / 1000.0) || ' seconds') FROM ns
    """,
}
_INDEXES = (
    "CREATE INDEX pastes_due ON pastes (expires_at) WHERE status = 'LIVE'",
    "CREATE INDEX pastes_stuck ON pastes (claimed_at) WHERE status = 'DELETING'",
)


class Contestant(Struct, frozen=True):
    """One program that works off the table. ``work``: one of ``WORKS``."""

    name: str
    work: str

    def command(self, url: str) -> tuple[list[str], dict[str, str]]:
        """Words and environment of its process."""
        if self.name == HAND:
            return ["-m", "bench.rows.hand", url, *(["counted"] if self.work == "counted" else [])], {}
        details = {
            "BENCH_OWNER": "yes" if self.name == OWNED else "no",
            "BENCH_COUNTED": "yes" if self.work == "counted" else "no",
        }
        return ["-m", "holdfast.cli", "worker", "bench.rows.tasks:app", "--log-level", "warning"], {
            "HOLDFAST_URL": url,
            **details,
        }


CONTESTANTS = [Contestant(name, work) for work in WORKS for name in (HAND, OURS, OWNED)]


def hold(ground: Ground, count: int, limits: Limits, book: Book, log_line: LogLine) -> int:
    """Run rounds while there is time, at least one; return how many. The first of a round is last in the next."""
    began = time.monotonic()
    for number in range(1, limits.rounds + 1):
        if number > 1 and time.monotonic() - began > limits.seconds:
            return number - 1
        for each in CONTESTANTS if number % 2 else reversed(CONTESTANTS):
            rate, rate_of_cpu = _rates(each, ground, count)
            book.entries[each.work, each.name].append(rate)
            book.entries[f"{each.work} {CPU}", each.name].append(rate_of_cpu)
            log_line(f"round {number} of {limits.rounds}: {each.name}, {each.work}: {rate:,.0f} rows/s, {rate_of_cpu:,.0f} {CPU}")
    return limits.rounds


def _rates(contestant: Contestant, ground: Ground, count: int) -> tuple[float, float]:
    """Return rows per second, and per second of computing, from the first that is claimed to the last that is done."""
    place = ground.place("rows")
    site = Site(place)
    _fill(site, count)
    with _running(contestant, site) as process:
        _until(lambda: site.say("SELECT status FROM pastes WHERE id = 1") != [("LIVE",)])
        began, used = time.perf_counter(), _used(site, process)
        _until(lambda: site.say("SELECT status FROM pastes WHERE id = ?", count) == [("DELETED",)])
        _until(lambda: site.say("SELECT 1 FROM pastes WHERE status IN ('LIVE', 'DELETING') LIMIT 1") == [])
        took, used = time.perf_counter() - began, _used(site, process) - used
    if contestant.work == "counted" and site.say("SELECT number FROM counters") != [(0,)]:
        raise RuntimeError(f"{contestant.name} has miscounted")
    site.close()
    ground.clear(place)
    return count / took, count / max(used, 0.01)


def _fill(site: Site, count: int) -> None:
    site.say(_TABLE)
    site.say(_FILL[site.kind], count)
    for index in _INDEXES:
        site.say(index)
    site.say("CREATE TABLE counters (id int PRIMARY KEY, number bigint)")
    site.say("INSERT INTO counters VALUES (1, ?)", count)
    app = App(site.url)
    app.migrate()
    app.close()
    site.tidy()


def _used(site: Site, process: subprocess.Popen[bytes]) -> float:
    server = site.server()
    return used_by(process.pid, *([server] if server else []))


@contextmanager
def _running(contestant: Contestant, site: Site) -> Iterator[subprocess.Popen[bytes]]:
    words, environment = contestant.command(site.url)
    output = site.place.file(".log")
    with output.open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        yield process
    except TimeoutError as error:
        raise TimeoutError(f"{error}; the end of the log of {contestant.name}:\n{output.read_text()[-4000:]}") from None
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(is_so: Callable[[], bool]) -> None:
    timeout = time.monotonic() + TIMEOUT
    while not is_so():
        if time.monotonic() > timeout:
            raise TimeoutError(f"nothing for {TIMEOUT:g} s")
        time.sleep(POLL)
