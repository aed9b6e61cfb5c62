"""``python -m proof.enumerate``: every small world to a depth, or one of them again with its story.

A world is a script and the deviations from it. The command prints how many there are, and how to repeat each one that broke a
property; the exit code is then 1.
"""

import argparse
import gc
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from typing import IO

import msgspec

from holdfast._system.clock import SystemClock
from proof.search.deviations import Deviation, What
from proof.search.enumeration import SCRIPTS, WINDOW, Deviations, Enumeration, Reach, Trial, attempt, perform
from proof.search.scripts import Script
from proof.simulate import revision

CHUNK = 20  # worlds that a process takes at a time
AHEAD = 2  # chunks that each of them has been given
TELLING = 250  # worlds between two reports of progress
MOST = 5  # broken worlds that are printed for each script


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = _parser().parse_args(arguments)
    scripts = [script for script in SCRIPTS if given.script in (None, script.name)]
    if given.serve:
        return _serve()
    if given.world is not None:
        return _tell_one(scripts[0], tuple(Deviation.parse(word) for word in given.world.split()))
    clock, worlds, shapes, broken = SystemClock(), 0, 0, 0
    started = clock.monotonic()
    with _Processes(given.jobs) as processes:
        for script in scripts:
            enumeration = Enumeration(script, given.depth, given.reach, window=given.window)
            broken += _enumerate(enumeration, processes)
            worlds, shapes = worlds + enumeration.worlds, shapes + len(enumeration.shapes)
    seconds = clock.monotonic() - started
    summary = f"worlds {worlds:,} (depth {given.depth}, window {given.window}), {shapes:,} distinct, {broken:,} violations"
    print(f"{summary}; {seconds:.0f} s in {given.jobs} processes")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m proof.enumerate", description=__doc__)
    parser.add_argument("--depth", type=int, default=2, help="how many deviations from a script (2)")
    reaches = (
        "sharp: only where something changes; every: also any one deviation; further: also the sharp ones after each of these"
    )
    parser.add_argument("--reach", type=Reach, choices=list(Reach), default=Reach.EVERY, help=reaches)
    parser.add_argument("--window", type=int, default=WINDOW, help=f"calls that change something between two of them ({WINDOW})")
    parser.add_argument("--jobs", type=int, default=2, help="processes to run them in (2)")
    parser.add_argument("--script", choices=[script.name for script in SCRIPTS], help="only this one")
    parser.add_argument("--world", help="with --script: only these deviations, with the whole story")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser


def _enumerate(enumeration: Enumeration, processes: "_Processes") -> int:
    script, broken = enumeration.script, 0
    for trial in enumeration.trials(partial(processes.attempt_all, script)):
        if trial.problems:
            broken += 1
            _show("")
            _tell(script, trial, broken)
        if enumeration.worlds % TELLING == 0:
            _show(f"{script.name}: {enumeration.worlds:,} worlds, {enumeration.left:,} to go at depth {len(trial.deviations)}")
    _show("")
    worlds, shapes = enumeration.worlds, len(enumeration.shapes)
    print(f"{script.name:<8} {worlds:>7,} worlds, {shapes:>6,} distinct, {broken:,} violations", flush=True)
    return broken


class _Processes:
    """Processes that run chunks of worlds, sent as lines of JSON, and answer with the results. One process alone needs no child."""

    def __init__(self, count: int) -> None:
        words = [sys.executable, "-m", "proof.enumerate", "--serve"]
        self._all = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count if count > 1 else 0)
        ]

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.kill()
            process.communicate()

    def attempt_all(self, script: Script, worlds: Iterable[Deviations]) -> Iterator[Trial]:
        """Yield the results in order; each process has its next chunk before it has finished the last one."""
        if not self._all:
            yield from map(partial(attempt, script), worlds)
            return
        asked: deque[subprocess.Popen[bytes]] = deque()
        turns, rest = cycle(self._all), iter(worlds)
        while chunk := list(islice(rest, CHUNK)):
            asked.append(next(turns))
            _send(asked[-1].stdin, (script.name, chunk))
            if len(asked) == AHEAD * len(self._all):
                yield from _receive(asked.popleft().stdout)
        for process in asked:
            yield from _receive(process.stdout)


def _send(pipe: IO[bytes] | None, message: object) -> None:
    assert pipe is not None
    pipe.write(msgspec.json.encode(message) + b"\n")
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> list[Trial]:
    assert pipe is not None
    line = pipe.readline()
    if not line:
        raise SystemExit("a process that runs worlds has ended")
    return msgspec.json.decode(line, type=list[Trial])


def _serve() -> int:
    """Run the chunks that the parent process sends, and print their results."""
    scripts = {script.name: script for script in SCRIPTS}
    gc.freeze()  # imported objects are never garbage: without them a world costs a sixth less
    for line in sys.stdin.buffer:
        name, worlds = msgspec.json.decode(line, type=tuple[str, list[Deviations]])
        _send(sys.stdout.buffer, [attempt(scripts[name], deviations) for deviations in worlds])
    return 0


def _tell(script: Script, trial: Trial, number: int) -> None:
    if number <= MOST:
        world = " ".join(str(each) for each in trial.deviations)
        print(f"{script.name} {world!r} broke at revision {revision()}:", *trial.problems[:3], sep="\n  ")
        print(f"repeat it: python -m proof.enumerate --script {script.name} --world '{world}'", flush=True)


def _show(progress: str) -> None:
    """Print the progress; on a terminal in one line that changes."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{progress}")
    elif progress:
        sys.stderr.write(f"{progress}\n")
    sys.stderr.flush()


def _tell_one(script: Script, deviations: Deviations) -> int:
    outcome, trial = perform(script, deviations)
    print(f"{script} at revision {revision()}: {outcome.seconds:.0f} s, {len(outcome.history)} events, shape {trial.shape}")
    calls = dict(enumerate(trial.calls, 1))
    for each in deviations:
        call = calls.get(each.at)
        print(f"{each}" if call is None or each.what is What.SWAP else f"{each}, of {call.sender}: {call.verb}")
    print("nothing broke" if outcome.is_clean else outcome.explain())
    print(f"digest {outcome.history.digest()}")
    return 0 if outcome.is_clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
