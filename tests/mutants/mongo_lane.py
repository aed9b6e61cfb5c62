"""A pytest plugin that runs tests of the MongoDB store once for each mutant: it puts the changed code into the functions that are there.

So a mutant costs what its test costs: the server, the imports and the schema are those of all. ``scripts/mutate_mongo.py`` uses it.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec
import pytest
from _pytest.runner import runtestprotocol

WORK = "HOLDFAST_MONGO_MUTANTS"
_PLAIN = (int, float, str, tuple, frozenset)


class Mutant(msgspec.Struct):
    """A changed module, and the test that must notice. ``text``: the whole changed file; empty for the code as it is."""

    name: str
    module: str
    text: str
    test: str


class Work(msgspec.Struct):
    """What there is to do. ``answers``: a file that gets a line for each mutant: its name, and whether its test failed."""

    answers: str
    mutants: list[Mutant]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the test of each mutant, in place of pytest's loop over tests."""
    work = msgspec.json.decode(Path(os.environ[WORK]).read_bytes(), type=Work)
    with Path(work.answers).open("ab", buffering=0) as answers:
        for mutant in work.mutants:
            items = [each for each in session.items if each.nodeid.partition("[")[0] == mutant.test]
            with changed(import_module(mutant.module), mutant.text):
                failed = [_fails(item, session) for item in items]
            answers.write(msgspec.json.encode([mutant.name, any(failed) if failed else None]) + b"\n")
    return True


def _fails(item: pytest.Item, session: pytest.Session) -> bool:
    reports = runtestprotocol(item, log=False, nextitem=item)  # fixtures of the session stay
    session._setupstate.teardown_exact(session)  # type: ignore[arg-type]
    return any(report.failed for report in reports)


@contextmanager
def changed(module: ModuleType, text: str) -> Iterator[None]:
    """Let the functions and plain constants of a module be those of another text, also where they were imported."""
    undo = list[Callable[[], None]]()
    try:
        if text:
            other = ModuleType(module.__name__)
            exec(compile(text, str(module.__file__), "exec"), vars(other))
            for name, new in [*vars(other).items()]:
                undo += _change(module, name, vars(module).get(name), new)
        yield
    finally:
        for each in reversed(undo):
            each()


def _change(module: ModuleType, name: str, old: Any, new: Any) -> Iterator[Callable[[], None]]:
    if isinstance(new, type) and new.__module__ == module.__name__ and isinstance(old, type):
        for each, function in vars(new).items():
            yield from _change_code(_function(vars(old).get(each)), _function(function))
    elif isinstance(new, FunctionType) and new.__module__ == module.__name__:
        yield from _change_code(_function(old), new)
    elif _is_plain(new) and old != new:
        for place in [each for each in [*sys.modules.values()] if getattr(each, "__dict__", {}).get(name) is old]:
            setattr(place, name, new)
            yield lambda place=place: setattr(place, name, old)  # type: ignore[misc]


def _change_code(old: FunctionType | None, new: FunctionType | None) -> Iterator[Callable[[], None]]:
    if old is not None and new is not None and old.__code__ != new.__code__:
        code = old.__code__
        old.__code__ = new.__code__
        yield lambda: setattr(old, "__code__", code)


def _function(value: Any) -> FunctionType | None:
    found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return found if isinstance(found, FunctionType) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, dict) and all(isinstance(each, (int, str)) for each in value.values()))
