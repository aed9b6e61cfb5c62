"""``python -m bench.objects``: measure and print."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Sequence

from rich.console import Console

from bench.objects import brokers, contention, faults, rates

PARTS = ("rates", "contention", "faults", "broker", "ends")


def main(arguments: Sequence[str]) -> int:
    """Measure; return 0 also when a target is missed: a benchmark reports, it does not judge."""
    options = _parser().parse_args(arguments)
    console = Console(width=160 if not sys.stdout.isatty() else None)
    console.print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", highlight=False
    )
    if "rates" in options.parts:
        asyncio.run(rates.measure(options.latency, options.seconds, options.backlog, console))
    if "contention" in options.parts:
        asyncio.run(contention.measure(options.latency, options.writers, options.seconds, console))
    if "faults" in options.parts:
        asyncio.run(faults.measure(options.jobs, console))
    if "broker" in options.parts:
        brokers.measure(options.latency, options.seconds, console)
    if "ends" in options.parts:
        brokers.measure_ends(options.ends, console)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.objects", description="Jobs in a bucket, beside the design by hand.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", type=_part, help=f"any of {', '.join(PARTS)} [all]", default=list(PARTS)
    )
    parser.add_argument(
        "--latency", type=float, nargs="+", default=[0.005, 0.05, 0.2], help="of a write, in seconds [0.005 0.05 0.2]"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement [4]")
    parser.add_argument("--backlog", type=int, default=0, help="jobs that wait already [0]")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 4, 16], help="processes without a broker [1 4 16]")
    parser.add_argument("--ends", nargs="+", choices=brokers.ENDS, default=list(brokers.ENDS), help="of the leading broker [all]")
    parser.add_argument("--jobs", type=int, default=500, help="that run under faults [500]")
    return parser


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"{name!r}: there are {', '.join(PARTS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
