"""Every test of this folder runs in memory and on a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.workflows import stores


@pytest.fixture(autouse=True, params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Let ``stores.new_app`` make Apps on an empty store of this kind, and close them after the test."""
    with stores.at("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"):
        yield
