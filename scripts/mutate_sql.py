"""Takes each guard out of the SQL of a store or of rows, one at a time, and looks which test fails.

    python -m scripts.mutate_sql --store sqlite                    # every guard; who kills it is remembered
    python -m scripts.mutate_sql --store sqlite --known            # each by the test that killed it last time
    python -m scripts.mutate_sql --store sqlite --new              # those of which no killer is known
    python -m scripts.mutate_sql --store sqlite --file start.sql   # the guards of one file
    python -m scripts.mutate_sql --store rows-sqlite               # of the templates for tables of others

With ``--known`` another test is searched for what its killer does not kill any more. What no test can notice is listed with its reason
in ``tests/mutants/equivalent.toml``. The exit code is 1 if anything else survives, or if a killer fails without any mutant too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.sql_guards import Guard, guards

ROOT = Path(__file__).resolve().parents[1]
KNOWN = ROOT / "tests/mutants"
TESTS = {
    "sqlite": (
        "tests/contract/test_sqlite.py::TestSqlite",
        "tests/stores/test_sqlite_*.py",
        "tests/stores/test_damaged_flows.py::TestSqlite",
        "tests/contract/test_model.py",
    ),
    "postgres": (
        "tests/contract/test_postgres.py::TestPostgres",
        "tests/contract/test_postgres.py::TestOneRange",
        "tests/stores/test_postgres_*.py",
        "tests/stores/test_damaged_flows.py::TestPostgres",
        "tests/contract/test_model_postgres.py",
    ),
    "rows-sqlite": ("tests/rows/test_*.py",),
    "rows-postgres": ("tests/rows/test_*.py",),
}
TOO_LONG = ("million", "failover", "disk", "versions", "postgres_plans", "rows/test_plans")
"""Files of tests that take long and know no guard that others do not."""
CONTROL = "nothing mutated"

Killers = dict[str, dict[str, str]]
Verdict = dict[str, str]
Mutant = dict[str, Any]
Place = tuple[str, Guard]
"""A file and a guard in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    given = _parser().parse_args(arguments)
    found = [
        (file, guard) for file, guard in _guards(given.store) if file in (given.file or [file]) and given.match in guard.name
    ]
    if given.list:
        print(*(f"{file}  {guard.name}" for file, guard in found), sep="\n")
        return 0
    killers, excused = _killers(given.store), _equivalent(given.store)
    judged = [(file, guard) for file, guard in found if _excuse(excused, file, guard.name) is None]
    chosen = [each for each in judged if not (given.new and _killer(killers, *each))][: given.most]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that lanes end with us
    began = time.monotonic()
    liars = _try_known(given, chosen, killers) if given.known else _try(given, chosen, killers)
    left = [f"{file}  {guard.name}" for file, guard in judged if not _killer(killers, file, guard)]
    for name in left:
        print(f"open: {name}")
    for test in liars:
        print(f"fails without any mutant, so what it killed is not proven: {test}")
    counts = f"{len(judged) - len(left)} killed, {len(found) - len(judged)} equivalent, {len(left)} open"
    print(f"{given.store}: {len(found)} guards: {counts}; {time.monotonic() - began:.0f} s")
    return 1 if left or liars else 0


def unjudged(store: str) -> list[str]:
    """Guards of which neither a test that fails without them is known, nor a reason why none can."""
    killers, excused = _killers(store), _equivalent(store)
    return [
        f"{file}  {guard.name}"
        for file, guard in _guards(store)
        if not _killer(killers, file, guard) and _excuse(excused, file, guard.name) is None
    ]


def open_guards(store: str) -> list[str]:
    """Guards of new statements of which no killer is known yet. The list may only get shorter: ``--new`` tries them."""
    found: dict[str, list[str]] = json.loads((KNOWN / "open.json").read_text(encoding="utf-8"))
    return found.get(store, [])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate_sql", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", choices=sorted(TESTS), required=True)
    parser.add_argument("--file", action="append", help="only guards of this file of queries; may be repeated")
    parser.add_argument("--match", default="", help="only guards with this in their name")
    parser.add_argument("--most", type=int, help="how many at most")
    parser.add_argument("--new", action="store_true", help="only those of which no killer is known")
    parser.add_argument(
        "--known", action="store_true", help="each by its known killer, and by others only if that fails to kill it"
    )
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked as long, such as the model")
    parser.add_argument("--tests", type=int, help="how many tests at most for one mutant, besides those that are likely")
    parser.add_argument("--forget", action="store_true", help="as if no killer were known")
    parser.add_argument("--lanes", type=int, default=1, help="processes (1)")
    parser.add_argument("--verbose", action="store_true", help="tell of each, also with --known")
    parser.add_argument("--list", action="store_true", help="say which guards there are, and try none")
    return parser


def queries(store: str, source: Path = ROOT / "src") -> Path:
    """Return the folder of the store's statements."""
    kind = store.removeprefix("rows-")
    return source / "holdfast" / ("stores" if kind == store else "rows") / kind / "queries"


def _guards(store: str) -> Iterator[Place]:
    folder = queries(store)
    for path in sorted(folder.rglob("*.sql")):
        name = path.relative_to(folder).as_posix()  # a part is mutated once
        yield from ((name, guard) for guard in guards(path.read_text(encoding="utf-8")))


def _equivalent(store: str) -> Killers:
    found: Killers = tomllib.loads((KNOWN / "equivalent.toml").read_text(encoding="utf-8")).get(store, {})
    return found


def _excuse(excused: Killers, file: str, name: str) -> str | None:
    """Return why no test can notice; excused for one guard, or with ``#*`` for all of that text, in one file or in all."""
    for known in (excused.get(file, {}), excused.get("*", {})):
        reason = known.get(name) or known.get(f"{name.partition(' #')[0]} #*")
        if reason:
            return reason
    return None


def _killers(store: str) -> Killers:
    path = KNOWN / f"killers_{store}.json"
    known: Killers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return known


def _killer(killers: Killers, file: str, guard: Guard) -> str:
    return killers.get(file, {}).get(guard.name, "")


def _remember(store: str, killers: Killers, verdicts: Sequence[Verdict]) -> None:
    """Write the killers without guards that are gone and killers that no longer kill; what other runs have found stays."""
    there = {(file, guard.name) for file, guard in _guards(store)}
    found = _killers(store)
    for verdict in verdicts:
        file, _, name = verdict["name"].partition("  ")
        for each in (killers, found):
            each.setdefault(file, {})[name] = verdict["killer"]
    kept = {
        file: {name: test for name, test in sorted(known.items()) if test and (file, name) in there}
        for file, known in sorted(found.items())
    }
    path = KNOWN / f"killers_{store}.json"
    path.write_text(json.dumps({file: known for file, known in kept.items() if known}, indent=1, ensure_ascii=False) + "\n")


def _try_known(given: argparse.Namespace, chosen: Sequence[Place], killers: Killers) -> list[str]:
    """Try each mutant by its killer, and by all tests that may kill it those whose killer is unknown or kills no more."""
    before = {(file, guard.name): _killer(killers, file, guard) for file, guard in chosen}
    liars = _try(given, [each for each in chosen if _killer(killers, *each)], killers, is_known=True)
    left = [each for each in chosen if not _killer(killers, *each)]
    for file, guard in left:
        print(f"{file}  {guard.name}: {before[file, guard.name] or 'no known test'} does not kill it; others are searched")
    return liars + _try(given, left, killers)


def _try(given: argparse.Namespace, chosen: Sequence[Place], killers: Killers, *, is_known: bool = False) -> list[str]:
    """Try the mutants, whose killers may be known; return also tests that fail without any mutant."""
    verdicts: list[Verdict] = []
    depth = {"is_quick": given.quick, "most": given.tests}
    mutants = [_mutant(given.store, file, guard, {} if given.forget else killers, is_known=is_known) for file, guard in chosen]
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-mutants-", dir=_memory()) as folder:
            for verdict in _run(given.store, mutants, Path(folder), lanes=given.lanes, depth=depth):
                verdicts.append(verdict)
                if given.verbose or not is_known:
                    _tell(verdict)
    finally:
        _remember(given.store, killers, [verdict for verdict in verdicts if verdict["name"] != CONTROL])
    return [verdict["killer"] for verdict in verdicts if verdict["name"] == CONTROL and verdict["killer"]]


def _run(store: str, mutants: Sequence[Mutant], folder: Path, *, lanes: int, depth: dict[str, object]) -> Iterator[Verdict]:
    parts = [mutants[lane::lanes] for lane in range(lanes) if mutants[lane::lanes]]
    running = [_start(store, part, folder / str(lane), depth=depth) for lane, part in enumerate(parts)]
    try:
        yield from _answers(running)
    finally:
        for process, _ in running:
            process.send_signal(signal.SIGINT)  # so that it ends its child
            process.wait()
    for process, answers in running:
        if process.returncode not in (0, 5):  # 5: pytest ran no test itself
            print((answers.parent / "said.txt").read_text(encoding="utf-8")[-4000:])
            raise SystemExit(f"a lane ended with {process.returncode}")


def _answers(running: Sequence[tuple[subprocess.Popen[bytes], Path]]) -> Iterator[Verdict]:
    """Yield the verdicts as they come."""
    read = [0] * len(running)
    while True:
        is_over = all(process.poll() is not None for process, _ in running)
        for lane, (_, answers) in enumerate(running):
            lines = answers.read_text(encoding="utf-8").split("\n")[:-1] if answers.exists() else []
            yield from (json.loads(line) for line in lines[read[lane] :])
            read[lane] = len(lines)
        if is_over:
            break
        time.sleep(0.2)


def _mutant(store: str, file: str, guard: Guard, killers: Killers, *, is_known: bool) -> Mutant:
    text, known = (queries(store) / file).read_text(encoding="utf-8"), killers.get(file, {})
    first = [known[guard.name]] if guard.name in known else []
    if not is_known:  # what notices one guard of a file often notices its neighbours
        first += [test for test, _ in Counter(known.values()).most_common(12) if test not in first]
    name = f"{file}  {guard.name}"
    return {"name": name, "file": file, "text": guard.removed_from(text), "first": first, "is_only": is_known}


def _start(
    store: str, mutants: Sequence[Mutant], folder: Path, *, depth: dict[str, object]
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a lane: a copy of the package, and a pytest that collects once."""
    shutil.copytree(ROOT / "src", folder / "src")  # with what was compiled
    work, answers = folder / "work.json", folder / "answers.jsonl"
    places = {"queries": str(queries(store, folder / "src")), "answers": str(answers), "uses": str(_uses(store))}
    work.write_text(json.dumps({"store": store, **places, "mutants": mutants, **depth}))
    words = [sys.executable, "-m", "pytest", "-q", "--tb=native", "-p", "tests.mutants.lane", "-p", "no:cacheprovider"]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}",
        "HOLDFAST_MUTANTS": str(work),
        "MODEL_EXAMPLES": "40",
    }
    with (folder / "said.txt").open("wb") as output:
        process = subprocess.Popen(
            [*words, f"--basetemp={folder / 'tmp'}", *_tests(store, mutants)],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return process, answers


def _tests(store: str, mutants: Sequence[Mutant]) -> list[str]:
    files = [name for pattern in TESTS[store] for name in (_matching(pattern) if "*" in pattern else [pattern])]
    files = [file for file in files if not any(word in file for word in TOO_LONG)]
    if not all(mutant["is_only"] for mutant in mutants):
        return files
    wanted = {test.partition("::")[0] for mutant in mutants for test in mutant["first"]}
    return [file for file in files if file.partition("::")[0] in wanted]


def _matching(pattern: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))


def _uses(store: str) -> Path:
    """Return the file of what was learnt of tests; a test that now uses more than before is learnt again by another name."""
    return ROOT / ".pytest_cache" / f"mutants-{store}.json"


def _memory() -> str | None:
    """Files in memory: five times as fast, and nothing of this is worth a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _tell(verdict: Verdict) -> None:
    test, is_control = verdict["killer"].rpartition("::")[2], verdict["name"] == CONTROL
    how = f"killed by {test} ({verdict['where']})" if test else "lives" if is_control else "SURVIVED"
    print(f"{verdict['seconds']:5.1f} s {verdict['tests']:4d} tests  {verdict['name']}  {how}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
