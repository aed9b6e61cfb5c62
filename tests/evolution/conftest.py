"""The web application on a store of the test, and repositories that visitors may name."""

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from holdfast.demo.sample import generate

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

ADDRESS = "http://127.0.0.1:8420"


@pytest.fixture(scope="session")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a repository of 60 commits; read only."""
    folder = tmp_path_factory.mktemp("repositories")
    generate(folder / "sample.git", 60)
    return folder


@pytest.fixture(scope="session")
def site(repositories: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Import the application, whose module opens the store that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLUTION_HOME", str(tmp_path_factory.mktemp("evolution")))
        patch.setenv("EVOLUTION_FILES", str(repositories))
        patch.delenv("HOLDFAST_URL", raising=False)
        module = importlib.import_module("evolution_web.web")
        module.app.migrate()
        yield module


@pytest.fixture(scope="session")
def visitor(site: ModuleType) -> "Iterator[TestClient]":
    """A browser on the machine of the web server."""
    from fastapi.testclient import TestClient  # noqa: PLC0415 – needs the application's packages

    with TestClient(site.web, base_url=ADDRESS, client=("127.0.0.1", 50_000), follow_redirects=False) as client:
        yield client


@pytest.fixture
def sample(repositories: Path) -> str:
    """Return the address of the repository of 60 commits."""
    assert os.environ["EVOLUTION_FILES"] == str(repositories)
    return f"file://{repositories}/sample.git"
