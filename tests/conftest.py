"""What every test shares."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = [
    "holdfast.testing.servers",
    "tests.servers.absent",
    "tests.stores.postgres_homes",
    "tests.stores.postgres_sites",
]

# Files of tests and servers are in memory where it has room: no test lets the machine crash, and a disk takes thrice as long to
# make and drop a database, and ever longer. Set here, the processes of xdist inherit it.
MEMORY, ROOM = Path("/dev/shm"), 6 * 2**30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)

# A slow machine is not a failing property. Under CI=true Hypothesis chooses its own reproducible profile.
settings.register_profile("here", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that of two processes none is left alone with them at the end."""
    items.sort(key=lambda item: -max((mark.args[0] for mark in item.iter_markers("timeout") if mark.args), default=0))
