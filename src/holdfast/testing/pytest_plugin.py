"""The pytest plugin: fixtures that put your App on a store of each test's own. It is installed with Holdfast.

In ``pyproject.toml``::

    [tool.pytest.ini_options]
    holdfast_app = "shop:app"

It imports little, because each run of pytest loads it. PYTEST_DONT_REWRITE
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.tested_app import TestedApp

INI = "holdfast_app"
REMEDY = f'set {INI} = "package.module:app" below [tool.pytest.ini_options], or use @pytest.mark.holdfast(app=…)'
SERVERS = "holdfast.testing.servers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that names the App."""
    parser.addini(INI, "the App of the fixture holdfast, as module:name", default="")


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Let an App that reads ``HOLDFAST_URL`` be imported where it is not set, also by a ``conftest.py``, which is imported next."""
    if early_config.getini(INI):
        os.environ.setdefault("HOLDFAST_URL", "memory://")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, which ``--strict-markers`` asks for."""
    config.addinivalue_line("markers", "holdfast(app=None, url='memory://'): the App and the store of the fixture holdfast")


@pytest.fixture
def holdfast(request: pytest.FixtureRequest) -> "Iterator[TestedApp]":
    """Put the App on a fresh memory store, or on the ``url`` of the marker, for this test."""
    yield from _tested(request, _marked(request, "url") or "memory://")


@pytest.fixture
def holdfast_sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[TestedApp]":
    """Put the App on a SQLite file of this test, which has transactions and rescue hooks."""
    yield from _tested(request, f"sqlite:///{tmp_path}/holdfast.db")


@pytest.fixture
def holdfast_postgres(request: pytest.FixtureRequest) -> "Iterator[TestedApp]":
    """Put the App on a fresh database of a PostgreSQL server that is started here; its clock cannot be advanced."""
    if not request.config.pluginmanager.has_plugin(SERVERS):
        request.config.pluginmanager.import_plugin(SERVERS)
    yield from _tested(request, request.getfixturevalue("postgres_dsn"))


def _tested(request: pytest.FixtureRequest, url: str) -> "Iterator[TestedApp]":
    from holdfast.testing.tested_app import placed  # noqa: PLC0415 - only for a test that uses it

    target = _marked(request, "app") or request.config.getini(INI)
    if not target:
        pytest.fail(f"the fixture {request.fixturename} does not know your App: {REMEDY}", pytrace=False)
    with ExitStack() as stack:
        yield stack.enter_context(placed(_app_of(str(target), request.config.rootpath), url))


def _marked(request: pytest.FixtureRequest, name: str) -> Any:
    mark = request.node.get_closest_marker("holdfast")
    return None if mark is None else mark.kwargs.get(name)


def _app_of(target: str, root: Path) -> "App":
    module, _, name = target.partition(":")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        found = getattr(importlib.import_module(module), name or "app")
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{INI} = {target!r}: {error}; {REMEDY}", pytrace=False)
    if not hasattr(found, "run_due"):
        pytest.fail(f"{INI} = {target!r} is a {type(found).__name__}, and no App: {REMEDY}", pytrace=False)
    app: App = found
    return app
