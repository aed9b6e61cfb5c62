"""``python -m bench.rows``: measure, print, and leave the numbers in ``bench/results``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs
from rich.console import Console

from bench.machine import machine
from bench.races import RACES, Ground
from bench.rounds import Book, Limits, LogLine
from bench.rows import claims, contest, crowd, plans, report
from bench.rows.site import Site

RESULTS = Path(__file__).parents[1] / "results"
PARTS = ("plans", "throughput")


def main(arguments: Sequence[str]) -> int:
    """Measure; 0 also when a figure is missed, 1 when a statement does not go along its index."""
    options = _parser().parse_args(arguments)
    console, log_line = Console(width=160 if not sys.stdout.isatty() else None), Console(stderr=True)
    is_sound = True
    for name in options.stores:
        with (
            tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder,
            RACES[name].ground(Path(folder)) as ground,
        ):
            is_sound &= _run(name, ground, Path(folder), options, console, lambda text: log_line.print(text, style="dim"))
    return 0 if is_sound else 1


def _run(name: str, ground: Ground, folder: Path, options: argparse.Namespace, console: Console, log_line: LogLine) -> bool:
    title = RACES[name].title
    about = {**machine(folder), title: ground.about()}
    for what, text in about.items():
        console.print(f"{what:16} {text}", soft_wrap=True, highlight=False)
    found: dict[str, object] = {}
    is_sound = True
    if "plans" in options.parts:
        about["beside"] = f"{options.rows:,} rows"
        looked, took = asyncio.run(_beside(ground, options.rows, log_line))
        is_sound = all(plan.is_sound for plan in looked)
        report.show_plans(f"{title}, beside {options.rows:,} rows", looked, console)
        report.show_claims(f"{title}, {crowd.BATCH:,} rows a call, beside {options.rows:,}", took, console)
        # The full text of a plan is needed only to understand one that is not as it should be.
        found |= {
            "plans": [structs.replace(plan, text="" if plan.is_sound else plan.text) for plan in looked],
            "milliseconds": took,
        }
    if "throughput" in options.parts:
        book = Book()
        about["worked off"] = f"{options.count:,} rows, {contest.BATCH:,} a batch"
        about["rounds"] = str(contest.hold(ground, options.count, Limits(options.rounds, options.seconds), book, log_line))
        report.show_contest(title, book, console)
        rounds = {f"{who}, {work}": values for (work, who), values in book.entries.items()}
        found |= {"ratios": report.ratios(book), "rows per second": rounds}
    console.print(f"written: {os.path.relpath(report.write(options.results / f'rows-{name}.json', about, **found))}")
    return is_sound


async def _beside(ground: Ground, count: int, log_line: LogLine) -> tuple[list[plans.Plan], claims.Figures]:
    place = ground.place("crowd")
    site = Site(place)
    table = crowd.open_on(site)
    log_line(f"writing {count:,} rows")
    crowd.fill(site, count)
    log_line("creating indexes")
    await table.create_indexes()
    site.checkpoint()
    owned = crowd.open_on(site, owner="claimed_by")
    looked = _named("without statistics", await plans.plans_of(table))
    log_line("statistics")
    site.tidy()
    looked += await plans.plans_of(table)
    looked += [plan for plan in _named("with an owner", await plans.plans_of(owned)) if plan.statement.startswith("move")]
    await owned.close()
    took = await claims.measure(site, table, count, log_line)
    await table.close()
    site.close()
    ground.clear(place)
    return looked, took


def _named(how: str, found: list[plans.Plan]) -> list[plans.Plan]:
    return [structs.replace(plan, statement=f"{plan.statement}, {how}") for plan in found]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.rows", description="What app.rows costs in a table of somebody else's.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", type=_part, help=f"any of {', '.join(PARTS)} [both]", default=list(PARTS)
    )
    parser.add_argument("--stores", nargs="*", choices=list(RACES), default=list(RACES), help="[both]")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table beside which is claimed [10000000]")
    parser.add_argument("--count", type=int, default=200_000, help="rows that are worked off in each run [200000]")
    parser.add_argument("--rounds", type=int, default=7, help="every contestant once in each [7]")
    parser.add_argument("--seconds", type=float, default=240.0, help="no round begins later than this [240]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go [bench/results]")
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(PARTS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
