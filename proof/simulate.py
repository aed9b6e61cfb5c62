"""``python -m proof.simulate --seeds 500``: many worlds, or one of them again with its story.

A seed that breaks a property is printed with the command that repeats it. The simplest of them is explained: the few decisions
that suffice to break it, and the story of their effects. The exit code is then 1.
"""

import argparse
import gc
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue

import msgspec
from msgspec import structs
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, Task
from rich.text import Text

from holdfast._core.book.book import Book
from holdfast._system.clock import SystemClock
from proof.report.failure import COMMAND, explain, tell
from proof.report.summary import Summary, problems_of
from proof.search import cases
from proof.search.shrinking import BUDGET
from proof.simulator.profiles import Brand, Profile
from proof.simulator.simulation import Outcome, perform, simulate

World = Callable[[int], Outcome]
REPEAT = 50  # one seed in this many runs twice, and both histories must be equal
PORTION = 20  # seeds that a process takes at once
MOST_PRINTED = 5  # failing seeds


class _Speed(ProgressColumn):
    """The seeds per minute so far."""

    def render(self, task: Task) -> Text:
        """Render nothing before the first portion is done."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{60 * speed:,.0f} seeds a minute")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # else lines about failed jobs go to stderr
    kind, brand = _store(given.store)
    world = partial(simulate, kind=kind, brand=brand, has_hooks=given.hooks, has_queue=given.queue, has_flows=given.workflows)
    if given.profile is not None:
        world = partial(world, profile=Profile(given.profile))
    if given.script is not None:
        return _tell_one(cases.read(given.script).play(kind))
    if given.seed is not None:
        return _tell_one(world(given.seed), given, kind)
    seeds = range(given.first, given.first + given.seeds)
    if given.part is not None:
        for part in _run_here(seeds[given.part :: given.jobs], world):
            print(msgspec.json.encode(part).decode(), flush=True)
        return 0
    given.jobs = max(1, min(given.jobs, given.seeds // PORTION))
    clock = SystemClock()
    started = clock.monotonic()
    summary = _run_all(seeds, given, world)
    for failure in summary.failures[:MOST_PRINTED]:
        print(failure)
    for line in summary.lines(clock.monotonic() - started, given.jobs):
        print(line)
    for _, seed in summary.failed[:MOST_PRINTED]:
        print(f"repeat it at {revision()}: {COMMAND} --seed {seed}{_more(given)}")
    if summary.failed:
        _explain(world(summary.failed[0][1]), given, kind)
    return 1 if summary.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--seeds", type=int, default=500, help="how many worlds (500)")
    parser.add_argument("--first", "--from", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seed", type=int, help="only this one, explained if it breaks something")
    parser.add_argument("--script", type=Path, help="only the world of this file, which an earlier failure has left")
    parser.add_argument("--jobs", type=int, default=cores, help=f"processes to run them in ({cores})")
    parser.add_argument("--hooks", action="store_true", help="all worlds have tasks with an on_rescue, not only some")
    parser.add_argument("--queue", action="store_true", help="in all worlds a queue delivers the jobs, not only in some")
    parser.add_argument("--workflows", action="store_true", help="all worlds that may have workflows have some, not only a fifth")
    parser.add_argument(
        "--store",
        default="memory",
        help="memory, sqlite or postgres: a real file, or a real server; or MODULE:CLASS of a memory store, which may be a broken one",
    )
    parser.add_argument("--profile", choices=[*Profile], help="all worlds have a store of this kind; else each draws its own")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"worlds to try for an explanation ({BUDGET}); 0: none")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where a failing world is left as a file"
    )
    return parser


def _store(name: str) -> tuple[type[Book], Brand]:
    if name in list(Brand):
        return Book, Brand(name)
    module, _, kind = name.partition(":")
    found: type[Book] = getattr(import_module(module), kind)
    return found, Brand.MEMORY


def _more(given: argparse.Namespace) -> str:
    words = [f"--{name}" for name in ("hooks", "queue", "workflows") if getattr(given, name)]
    words += [f"--store {given.store}"] if given.store != Brand.MEMORY else []
    words += [f"--profile {given.profile}"] if given.profile is not None else []
    return "".join(f" {word}" for word in words)


def _run_all(seeds: range, given: argparse.Namespace, world: World) -> Summary:
    summary, columns = Summary(), (*Progress.get_default_columns(), MofNCompleteColumn(), _Speed())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=len(seeds))
        parts = _run_elsewhere(given) if given.jobs > 1 else _run_here(seeds, world)
        for part in parts:
            summary.merge(part)
            progress.update(task, advance=part.seeds)
    summary.failed.sort()
    return summary


def _run_here(seeds: range, world: World) -> Iterator[Summary]:
    gc.freeze()  # imported objects are never garbage
    gc.disable()  # a world becomes garbage as a whole, when it has been checked
    try:
        for first in range(0, len(seeds), PORTION):
            yield _run(seeds[first : first + PORTION], world)
    finally:
        gc.enable()


def _run_elsewhere(given: argparse.Namespace) -> Iterator[Summary]:
    """Run the seeds in child processes, and yield the summary of each portion that one of them has run."""
    words = [sys.executable, "-m", "proof.simulate", *_more(given).split()]
    words += [f"--first={given.first}", f"--seeds={given.seeds}", f"--jobs={given.jobs}"]
    parts = [[*words, f"--part={part}"] for part in range(given.jobs)]
    # In separate sessions, so that only the parent receives Ctrl-C.
    running = [subprocess.Popen(part, stdout=subprocess.PIPE, start_new_session=True) for part in parts]
    received: SimpleQueue[bytes] = SimpleQueue()

    def read(process: subprocess.Popen[bytes]) -> None:
        for line in process.stdout or ():
            received.put(line)
        received.put(b"")

    with ThreadPoolExecutor(len(running)) as readers:
        readers.map(read, running)
        left = len(running)
        try:
            while left:
                line = received.get()
                if line:
                    yield msgspec.json.decode(line, type=Summary, dec_hook=lambda kind, value: kind(value))
                left -= not line
        except BaseException:
            for process in running:
                process.kill()
            raise
    if failed := [process for process in running if process.wait()]:
        raise SystemExit(f"{len(failed)} parts of the simulation ended with an error")


def _run(seeds: Sequence[int], world: World) -> Summary:
    summary = Summary()
    for seed in seeds:
        outcome = world(seed)
        problems = problems_of(outcome)
        if seed % REPEAT == 0 and world(seed).history.digest() != outcome.history.digest():
            problems.append("the same seed gave another history: the seed does not decide everything")
        summary.add(outcome, problems)
        del outcome
        gc.collect()
    return summary


def _tell_one(outcome: Outcome, given: argparse.Namespace | None = None, kind: type[Book] = Book) -> int:
    print(f"seed {outcome.seed} at revision {revision()}: {outcome.seconds:.0f} s, {len(outcome.history)} events")
    print(outcome.plan if outcome.plan.script is None else structs.replace(outcome.plan, script=None))
    if given is None or outcome.is_clean:
        for line in tell(outcome):
            print(line)
    else:
        _explain(outcome, given, kind)
    print(f"digest {outcome.history.digest()}")
    return 0 if outcome.is_clean else 1


def _explain(found: Outcome, given: argparse.Namespace, kind: type[Book]) -> None:
    if not cases.broken_by(found):
        return
    run = partial(perform, seed=found.seed, kind=kind)
    for line in explain(found, run, budget=given.budget, folder=given.folder, revision=revision()):
        print(line, flush=True)


def revision() -> str:
    """Return the commit of this code, with a suffix if the code was changed since."""
    folder = Path(__file__).parent
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
