"""A user's folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import url

TASKS = """
from holdfast import App, Job

app = App("{url}", ttl="3s")
empty = App("memory://")

@app.task
async def analyze(job: Job, repo_url: str, limit: int = 100) -> dict:
    return {{}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a user's folder with `shop.py` in it."""
    (tmp_path / "shop.py").write_text(TASKS.format(url=url(tmp_path)))
    for name in ("HOLDFAST_APP", "HOLDFAST_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]
