"""``python -m bench.mongo``: measure, print, and leave every number in ``bench/results/mongo.json``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from bench.machine import machine
from bench.mongo import acceptance, acts, npm
from bench.mongo.node_peers import KINDS, Kind, NodePeer
from bench.mongo.ours import HoldfastOnMongo
from bench.mongo.rates import Numbers, Rates
from bench.mongo.site import Site, site
from bench.rounds import Book

RESULTS = Path(__file__).parents[1] / "results"
RATES = ("enqueue", "store", "drain", "peers", "latency", "beside")
PARTS = (*RATES, "acts", "idle")
ORPHANS = 10_000


def main(arguments: Sequence[str]) -> int:
    """Measure; return 0 also when a figure is missed: a benchmark reports, it does not judge."""
    options = _parser().parse_args(arguments)
    logging.disable(logging.WARNING)  # each rescued job would be a line
    console, log_line = Console(width=160 if not sys.stdout.isatty() else None), Console(stderr=True)
    problem = npm.install() if "peers" in options.parts else "not asked for"
    kinds = () if problem else tuple(each for each in KINDS if each.name in options.only)
    book = Book()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="holdfast-bench-") as folder, site(Path(folder)) as at:
        about = _about(at, Path(folder), options, kinds, problem)
        for name, text in about.items():
            console.print(f"{name:16} {text}", soft_wrap=True, highlight=False)
        numbers = _numbers(options)
        rates = Rates(at, kinds, numbers, book, lambda text: log_line.print(text, style="dim"))
        for number in range(options.rounds):
            asyncio.run(rates.round(number, [each for each in RATES if each in options.parts]))
            asyncio.run(_acts(at, book, options, is_first=number == 0))
            about["rounds"] = str(number + 1)
            path = _write(options.results, about, book, [each.name for each in kinds])
    _show(console, book, [each.name for each in kinds])
    console.print(f"written: {os.path.relpath(path)}", soft_wrap=True)
    return 0


async def _acts(at: Site, book: Book, options: argparse.Namespace, *, is_first: bool) -> None:
    count = _orphans(options)
    if "acts" in options.parts:
        await acts.failed_attempts(at, book)
        await acts.beat(at, book, count)
        await acts.orphans(at, book, count)
    if "idle" in options.parts and is_first:
        await acts.idle(at, book, options.idle)


def _orphans(options: argparse.Namespace) -> int:
    part: float = options.size
    return max(100, round(ORPHANS * part))


def _about(at: Site, folder: Path, options: argparse.Namespace, kinds: Sequence[Kind], problem: str | None) -> dict[str, str]:
    about = {**machine(folder), "server": at.about(), "holdfast": HoldfastOnMongo.settings()}
    about |= {each.name: NodePeer.settings_of(each) for each in kinds}
    about |= {"peers": f"none: {problem}"} if problem else {}
    sizes = f"size {options.size:g}, {_orphans(options):,} orphans"
    beside = f"{options.others:,} other jobs, {options.listeners} listeners"
    return about | {"run": f"{sizes}, {beside}, parts {' '.join(options.parts)}"}


def _numbers(options: argparse.Namespace) -> Numbers:
    full, part = Numbers(), options.size
    return Numbers(
        one_by_one=max(20, round(full.one_by_one * part)),
        batches=max(1000, round(full.batches * part)),
        drain=max(1000, round(full.drain * part)),
        peers=max(20, round(full.peers * part)),
        pings=max(5, round(full.pings * part)),
        others=options.others,
        listeners=options.listeners,
    )


def _show(console: Console, book: Book, peers: Sequence[str]) -> None:
    table = Table("figure", "of", "median of the rounds", "lowest", "highest")
    for (figure, name), values in sorted(book.entries.items()):
        table.add_row(figure, name, *(_number(value) for value in (book.median(figure, name), min(values), max(values))))
    console.print(table)
    musts = Table("acceptance: the median of the rounds, or of their ratios", "must", "found", "", "by computing time")
    for each in acceptance.judge(book, peers):
        musts.add_row(each.text, each.must, f"{each.found:.2f}", "met" if each.is_met else "MISSED", _number(each.by_cpu))
    console.print(musts)


def _write(folder: Path, about: dict[str, str], book: Book, peers: Sequence[str]) -> Path:
    """Write all that was measured so far."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {f"{figure} | {name}": values for (figure, name), values in book.entries.items()}
    data = {"about": about, "acceptance": acceptance.judge(book, peers), "rounds": numbers}
    path = folder / "mongo.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")
    return path


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m bench.mongo", description="Holdfast on MongoDB, beside its peers and raw commands."
    )
    names = [each.name for each in KINDS]
    parser.add_argument(
        "parts", nargs="*", metavar="PART", type=_part, default=list(PARTS), help=f"any of {', '.join(PARTS)} [all]"
    )
    parser.add_argument("--only", nargs="*", choices=names, default=names, help="of the peers [all]")
    parser.add_argument("--rounds", type=int, default=3, help="every queue once in each [3]")
    parser.add_argument("--size", type=float, default=1.0, help="multiplies the numbers of jobs [1]")
    parser.add_argument("--others", type=int, default=800_000, help="jobs beside which a drain is measured [800000]")
    parser.add_argument("--listeners", type=int, default=64, help="that are idle beside a drain [64]")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds for which an idle worker is watched [30]")
    parser.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the numbers go [bench/results]")
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(PARTS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
