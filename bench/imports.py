"""``python -m bench.imports``: what a program pays before its first job: imports, a task, one enqueue on SQLite. In fresh processes.

With trees of source code as arguments, each of them in turn in each round: ``python -m bench.imports /tmp/before/src src``.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import holdfast

APP = "from holdfast import App\napp = App('sqlite:///{0}/jobs.db')\n@app.task\ndef resize(path: str) -> None: ...\n"
PROGRAMS = {
    "asyncio and msgspec": "import asyncio, msgspec",
    "import holdfast": "import holdfast",
    "from holdfast import App": "from holdfast import App",
    "from holdfast import App, Job": "from holdfast import App, Job",
    "one task": APP,
    "one task, one enqueue": APP + "resize.enqueue('a.png')",
}


def cost(program: str, tree: str) -> tuple[float, float]:
    """Run a program in a fresh process; return milliseconds of processor time and by the clock."""
    with tempfile.TemporaryDirectory() as folder:
        place = f"import sys; sys.path.insert(0, {tree!r})\n"
        if "enqueue" in program:
            migrate = place + APP.format(folder) + "app.migrate(); app.close()"
            subprocess.run([sys.executable, "-I", "-c", migrate], check=True)
        begin = time.perf_counter()
        pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", place + program.format(folder)], {})
        _, status, used = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"a program failed: {program}")
        return 1000 * (used.ru_utime + used.ru_stime), 1000 * (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", default=[str(Path(holdfast.__file__).parents[1])])
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    trees = [str(Path(tree).absolute()) for tree in given.trees]
    found: dict[tuple[str, str], list[tuple[float, float]]] = {(name, tree): [] for name in PROGRAMS for tree in trees}
    for number in range(given.rounds + 1):
        for name, tree in [*found][:: 1 if number % 2 else -1]:
            measured = cost(PROGRAMS[name], tree)
            if number:  # the first round writes bytecode
                found[name, tree].append(measured)
    print(f"{'milliseconds: median (least)':32} {'processor':>18} {'clock':>18}")
    for (name, tree), pairs in found.items():
        columns = [f"{statistics.median(each):7.1f} ({min(each):6.1f})" for each in zip(*pairs, strict=True)]
        print(f"{name:32} {columns[0]:>18} {columns[1]:>18}  {tree}")


if __name__ == "__main__":
    main()
