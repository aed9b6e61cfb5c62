"""``python -m bench.watched``: what metrics, traces and watching people cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.watched import drains, people


def main(arguments: Sequence[str]) -> int:
    """Measure the figure that is asked for, and print it."""
    parser = argparse.ArgumentParser("python -m bench.watched", description="What it costs to be seen.")
    figures = parser.add_subparsers(required=True)
    drain = figures.add_parser("drain", help="a worker with metrics, with traces, and with neither")
    drain.set_defaults(run=drains.run)
    drain.add_argument("store", nargs="?", choices=["sqlite", "postgres"], default="sqlite", help="[sqlite]")
    drain.add_argument("--jobs", type=int, default=50_000, help="in each drain [50000]")
    drain.add_argument("--rounds", type=int, default=5, help="[5]")
    drain.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    large = figures.add_parser("people", help="pages of a large store on PostgreSQL, people who watch, and a retry of many jobs")
    large.set_defaults(run=people.run)
    large.add_argument("--completed", type=int, default=3_000_000, help="[3000000]")
    large.add_argument("--failed", type=int, default=100_000, help="[100000]")
    large.add_argument("--jobs", type=int, default=150_000, help="in each drain [150000]")
    large.add_argument("--rounds", type=int, default=3, help="[3]")
    large.add_argument("--folder", help="where the files lie: choose the disk [the system's temporary folder]")
    options = parser.parse_args(arguments)
    options.run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
