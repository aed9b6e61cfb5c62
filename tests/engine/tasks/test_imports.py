"""``App(imports=…)``: a worker or `run_due` imports the modules; making the App does not."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import App, ConfigurationError
from holdfast._processes.loading import load_app

TASKS = """
from shop_of_{name} import app

@app.task
async def pack(parcel: int) -> int:
    return parcel
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("shop_of_", "tasks_of_")):
            del sys.modules[name]


def test_tasks_are_registered_when_the_app_is_loaded_and_not_before(folder: Path) -> None:
    (folder / "shop_of_ann.py").write_text("from holdfast import App\napp = App('memory://', imports=['tasks_of_ann'])\n")
    (folder / "tasks_of_ann.py").write_text(TASKS.format(name="ann"))
    app = load_app("shop_of_ann")
    assert app.registry.names() == ("pack",)
    app.load()
    assert app.registry.names() == ("pack",)


def test_worker_and_run_due_load_the_imports_first(folder: Path) -> None:
    for name in ("bob", "cid"):
        (folder / f"shop_of_{name}.py").write_text(
            f"from holdfast import App\napp = App('memory://', imports=['tasks_of_{name}'])\n"
        )
        (folder / f"tasks_of_{name}.py").write_text(TASKS.format(name=name))
    apps: list[App] = [__import__(f"shop_of_{name}").app for name in ("bob", "cid")]
    assert [app.registry.names() for app in apps] == [(), ()]
    apps[0].worker()
    apps[1].run_due()
    assert [app.registry.names() for app in apps] == [("pack",), ("pack",)]
    apps[1].close()


def test_imports_that_fail_are_named_together(folder: Path) -> None:
    (folder / "tasks_of_dan.py").write_text("import json\nraise RuntimeError('broken')\n")
    (folder / "tasks_of_eve.py").write_text("import nowhere_to_be_found\n")
    app = App("memory://", imports=("tasks_of_dan", "tasks_of_eve", "tasks_of_fay", "json"))
    with pytest.raises(ConfigurationError) as caught:
        app.load()
    dan, eve, fay = caught.value.problems
    assert "RuntimeError: broken at " in dan
    assert "tasks_of_dan.py:2" in dan
    assert "nowhere_to_be_found" in eve
    assert "there is no module 'tasks_of_fay'" in fay


@pytest.mark.parametrize("failing", ["RuntimeError('broken')", "SystemExit('broken')"])
def test_a_module_that_fails_to_make_its_app_is_refused_in_one_line(folder: Path, failing: str) -> None:
    (folder / "shop_of_gus.py").write_text(f"def __getattr__(name):\n    if name == 'app':\n        raise {failing}\n")
    with pytest.raises(ConfigurationError, match=r"importing shop_of_gus:app failed: .*: broken at .*shop_of_gus\.py:3"):
        load_app("shop_of_gus:app")
    del sys.modules["shop_of_gus"]


@pytest.mark.parametrize("imports", ["tasks", [5], ["a-b"], ["a..b"], 7, [""]])
def test_imports_that_are_not_module_names_are_refused(imports: object) -> None:
    with pytest.raises(ConfigurationError, match="imports="):
        App("memory://", imports=imports)  # type: ignore[arg-type]


async def no_manager(app: App) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("lifespan", [no_manager, "lifespan", 5])
def test_a_lifespan_that_is_not_a_context_manager_is_refused(lifespan: object) -> None:
    with pytest.raises(ConfigurationError, match=r"lifespan.*context ?manager"):
        App("memory://", lifespan=lifespan)  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", ["", "1a", "A", "a-b", "a" * 64, 'a"; --', None, "a\n"])
def test_a_schema_that_is_not_a_plain_name_is_refused(schema: object) -> None:
    with pytest.raises(ConfigurationError, match="schema="):
        App("memory://", schema=schema)  # type: ignore[arg-type]


def test_schema_and_transport_are_kept_in_the_settings() -> None:
    settings = App("memory://", schema="_jobs2", transport=None).settings
    assert (settings.schema, settings.transport) == ("_jobs2", None)
    with pytest.raises(ConfigurationError, match="transport='bus://x': no such transport"):
        App("memory://", transport="bus://x")
