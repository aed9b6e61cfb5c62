"""What every test shares."""

import inspect
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = [
    "holdfast.testing.servers",
    "tests.event_loops",
    "tests.servers.absent",
    "tests.stores.mongo_homes",
    "tests.stores.postgres_databases",
    "tests.stores.postgres_faulty_databases",
]

# Files of tests and servers are in memory if that is large enough: no test lets the machine crash, and a disk takes thrice as long to
# make and drop a database, and ever longer. Set here, the processes of xdist inherit it.
MEMORY, ROOM = Path("/dev/shm"), 6 * 2**30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # pytest has looked for the folder of temporary files before it reads this file

# The applications of these examples are imported by tests and by the workers they start.
EXAMPLES = [str(Path(__file__).parents[1] / "examples" / "code_evolution"), str(Path(__file__).parents[1] / "examples")]
sys.path += EXAMPLES
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), *EXAMPLES)))

# A slow machine is not a failing property. Under CI=true Hypothesis chooses its own reproducible profile.
settings.register_profile("here", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("here")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--long``: which of the tests that are marked ``prove`` run."""
    parser.addoption("--long", choices=("all", "none", "only"), default="all", help="tests marked `prove` (all)")


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Make no tests of a long class or function that is not asked for: twelve thousand take each process 13 s."""
    is_unasked = collector.config.getoption("--long") == "none" and (inspect.isclass(obj) or inspect.isfunction(obj))
    return [] if is_unasked and any(mark.name == "prove" for mark in getattr(obj, "pytestmark", [])) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests that are not asked for. The longest first, so that no process is left with them at the end."""
    choice = config.getoption("--long")

    def is_wanted(item: pytest.Item) -> bool:
        is_long = item.get_closest_marker("prove") is not None
        return choice == "all" or (choice == "only") == is_long

    left = [item for item in items if not is_wanted(item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_wanted(item)]
    items.sort(key=lambda item: -max((mark.args[0] for mark in item.iter_markers("timeout") if mark.args), default=0))
