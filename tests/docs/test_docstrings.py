"""The examples in docstrings do what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"


def has_examples(path: Path) -> bool:
    """Return whether any example of the file is run; those that need a worker or a server are marked SKIP."""
    return any(">>> " in line and "+SKIP" not in line for line in path.read_text().splitlines())


FILES = sorted(filter(has_examples, (SOURCE / "holdfast").rglob("*.py")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_of_a_module_do_what_they_show(path: Path) -> None:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    results = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0
    assert results.failed == 0
