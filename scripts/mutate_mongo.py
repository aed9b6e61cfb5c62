"""Takes each guard out of the MongoDB store, one at a time, and runs the test that must fail without it.

    python -m scripts.mutate_mongo                   # every guard, by its killer
    python -m scripts.mutate_mongo --match barrier   # those with this in what they say

The guards are in ``tests/mutants/mongo.toml``. A guard whose text is gone is an error: the code has moved, and the table must follow. The
exit code is 1 if a guard survives, or if a killer fails without any mutant too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests/mutants/mongo.toml"
OWN, WHOLE = "tests/stores/test_mongo_guards.py", "tests/contract/test_mongo.py::TestWhole"
SECONDS = 1800
CONTROL = "nothing mutated: "


@dataclass(frozen=True)
class Guard:
    """A guard and the edit that removes it. ``because``: why no test can notice. ``is_fresh``: the schema is made without it."""

    says: str
    file: str
    old: str
    new: str
    killer: str = ""
    because: str = ""
    is_fresh: bool = False

    def text(self, source: Path) -> str:
        """Return the file without the guard. ``ValueError``: it is not there exactly once."""
        whole = (source / "holdfast" / self.file).read_text(encoding="utf-8")
        if (number := whole.count(self.old)) != 1:
            raise ValueError(f"{self.file} has {number} times, not once: {self.old.strip()}")
        return whole.replace(self.old, self.new)

    @property
    def module(self) -> str:
        """The module that has it."""
        return f"holdfast.{self.file.removesuffix('.py').replace('/', '.')}"

    @property
    def test(self) -> str:
        """The killer, as pytest names it."""
        own = re.search(rf"^( *)(?:async )?def {self.killer}\(", (ROOT / OWN).read_text(encoding="utf-8"), re.MULTILINE)
        return f"{WHOLE}::{self.killer}" if own is None else f"{OWN}::TestGuards::{self.killer}"


def guards(table: Path = TABLE) -> list[Guard]:
    """Read the guards that the table names."""
    return [Guard(**each) for each in tomllib.loads(table.read_text(encoding="utf-8"))["guard"]]


def gone(found: Sequence[Guard], source: Path = ROOT / "src") -> list[str]:
    """Say which guards are not in the code as the table has them."""
    lost = list[str]()
    for guard in found:
        try:
            guard.text(source)
        except ValueError as error:
            lost.append(f"{guard.says}: {error}")
    return lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    given = _parser().parse_args(arguments)
    found = [each for each in guards() if given.match in each.says]
    if lost := gone(found):
        print(*(f"gone: {each}" for each in lost), sep="\n")
        return 1
    chosen = [each for each in found if each.killer]
    began, wrong = time.monotonic(), 0
    batches = [[guard for guard in chosen if not guard.is_fresh], *([guard] for guard in chosen if guard.is_fresh)]
    for batch in filter(None, batches):
        for says, is_killed in _run(batch):
            is_control = says.startswith(CONTROL)
            how = "killed" if is_killed else "lives" if is_control else "SURVIVED"
            wrong += is_killed is is_control
            print(f"{says}: {'fails without any mutant' if is_control and is_killed else how}", flush=True)
    counts = f"{len(chosen)} tried, {len(found) - len(chosen)} equivalent, {wrong} wrong"
    print(f"mongo: {len(found)} guards: {counts}; {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate_mongo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--match", default="", help="only guards with this in what they say")
    return parser


def _run(batch: Sequence[Guard]) -> Iterator[tuple[str, bool]]:
    """Let one pytest try these mutants; then each killer without a mutant, unless the schema was made with one."""
    tests = sorted({guard.test for guard in batch})
    mutants = [_mutant(guard.says, guard.module, guard.text(ROOT / "src"), guard.test) for guard in batch]
    if not batch[0].is_fresh:
        mutants += [_mutant(CONTROL + test.rpartition("::")[2], "holdfast.stores.mongo.store", "", test) for test in tests]
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        work, answers = Path(folder) / "work.json", Path(folder) / "answers.jsonl"
        work.write_text(json.dumps({"answers": str(answers), "mutants": mutants}))
        words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.mutants.mongo_lane", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "HOLDFAST_MONGO_MUTANTS": str(work)}
        done = subprocess.run([*words, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
        lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
    verdicts = [(says, is_killed) for says, is_killed in map(json.loads, lines)]
    if len(verdicts) < len(mutants) or None in dict(verdicts).values():
        raise SystemExit(f"pytest ended after {len(verdicts)} of {len(mutants)} mutants: {done.stdout[-4000:]}")
    yield from verdicts


def _mutant(name: str, module: str, text: str, test: str) -> Mapping[str, str]:
    return {"name": name, "module": module, "text": text, "test": test}


if __name__ == "__main__":
    raise SystemExit(main())
