"""The module ``web`` of a page, imported from the folder with the page's files."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def web_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the module, and close its App afterwards."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("tasks", "web"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("web")
    yield module
    module.app.close()
    for name in ("tasks", "web"):
        sys.modules.pop(name, None)
