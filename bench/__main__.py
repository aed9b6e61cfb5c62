"""``python -m bench``: measure, print, and leave table and chart in ``bench/results``."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import report
from bench.machine import machine
from bench.races import RACES, Race
from bench.rounds import Book, Limits, Play

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str]) -> int:
    """Measure; return 0 also when a target is missed: a benchmark reports, it does not judge."""
    options = _parser().parse_args(arguments)
    console = Console(width=160 if not sys.stdout.isatty() else None)
    for name in options.stores or RACES:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder:
            _run(RACES[name], Path(folder), options, console)
    return 0


def _run(race: Race, folder: Path, options: argparse.Namespace, console: Console) -> None:
    book, log_line = Book(), Console(stderr=True)
    with race.ground(folder) as ground:
        about = {**machine(folder), race.title: ground.about(), "beside": f"{options.scale:,}"}
        about |= {peer.name: peer.settings() for peer in (*race.peers, *race.queues)}
        for name, text in about.items():
            console.print(f"{name:16} {text}", soft_wrap=True, highlight=False)
        play = Play(race, ground, race.sizes.part(options.size), book, lambda text: log_line.print(text, style="dim"))
        about["rounds"] = str(asyncio.run(play.run(Limits(options.rounds, options.seconds), options.scale)))
    report.show(race, book, console, options.scale)
    for path in report.write(race, book, options.results, about):
        console.print(f"written: {os.path.relpath(path)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description="Holdfast beside its peers on this machine.")
    parser.add_argument("stores", nargs="*", metavar="STORE", type=_store, help=f"any of {', '.join(RACES)} [all]")
    parser.add_argument("--rounds", type=int, default=10, help="every peer once in each [10]")
    parser.add_argument("--seconds", type=float, default=180.0, help="no round begins later than this [180]")
    parser.add_argument("--scale", type=int, default=100_000, help="jobs beside which ours are run, 0: none [100000]")
    parser.add_argument("--size", type=float, default=1.0, help="multiplies the numbers of jobs [1]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where table and chart go [bench/results]")
    return parser


def _store(name: str) -> str:
    if name not in RACES:
        raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(RACES)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
