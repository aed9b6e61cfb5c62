"""Fixtures of the demo's tests."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from analyzer import analysis
from analyzer.processes import Workshop
from analyzer.sample import generate

from tests.code_evolution.support import children_of_this_process


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated repository of 120 commits; read only."""
    folder = tmp_path_factory.mktemp("sample") / "sample.git"
    generate(folder, 120)
    return folder


@pytest.fixture
def no_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty charts in no time: half a second saved for each test which is not about them."""

    def touch(workshop: Workshop, command: Sequence[str]) -> None:
        for path in (command[command.index("--svg") + 1], command[command.index("--png") + 1]):
            Path(path).touch()

    monkeypatch.setattr(analysis, "_run_child", touch)


@pytest.fixture(autouse=True, scope="session")
def _a_cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    before = children_of_this_process()
    yield
    assert children_of_this_process() <= before
