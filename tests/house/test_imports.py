"""What a program loads that only enqueues: nothing that runs jobs, and no driver."""

import subprocess
import sys
from pathlib import Path

EXPECTED = Path(__file__).with_name("imported.txt")
DEPENDENCIES = {"msgspec", "typing_extensions"}
PROGRAM = "import holdfast, sys; print(*sys.modules, sep='\\n')"


def test_importing_holdfast_loads_these_modules_and_no_others() -> None:
    answer = subprocess.run([sys.executable, "-I", "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = set(answer.stdout.split())
    assert sorted(name for name in loaded if name.partition(".")[0] == "holdfast") == EXPECTED.read_text().splitlines()
    roots = {name.partition(".")[0] for name in loaded}
    foreign = {name for name in roots - sys.stdlib_module_names - {"holdfast"} if not name.startswith("_")}
    assert foreign <= DEPENDENCIES
