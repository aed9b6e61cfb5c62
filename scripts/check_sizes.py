"""Keep files and functions small enough to read in one go; `make check` runs this.

A file has at most 400 lines, a function 40 (its docstring not counted) and at most 6 parameters that are not keyword-only.
`# size: why` exempts a file when it stands in the first ten lines, and a function when it stands between its `def` and the
line of its first statement.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 400
FUNCTION_LINES = 40
PARAMETERS = 6
EXEMPT = re.compile(r"(#|--) size: \S")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_file(path: Path) -> Iterator[str]:
    """Yield one line of advice for each rule the file breaks."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    if len(lines) > FILE_LINES and not _is_exempt(lines[:10]):
        yield f"{path}:1: {len(lines)} lines, at most {FILE_LINES}: move one noun to a file of its own"
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and not _is_exempt(_head(node, lines)):
            yield from (f"{path}:{node.lineno}: {node.name} {advice}" for advice in _check_function(node))


def _check_function(node: Function) -> Iterator[str]:
    length = _length(node)
    if length > FUNCTION_LINES:
        yield f"has {length} lines, at most {FUNCTION_LINES}: give a step inside it a name"
    named = [each.arg for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in {"self", "cls"}]
    if len(named) > PARAMETERS:
        yield f"takes {len(named)} parameters, at most {PARAMETERS}: put `*` before the rare ones, or give the group a name"


def _length(node: Function) -> int:
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is None:
        return total
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def _head(node: Function, lines: list[str]) -> list[str]:
    """Return the lines from the `def` to the first statement that is not the docstring."""
    has_docstring = ast.get_docstring(node, clean=False) is not None
    first = node.body[1] if has_docstring and len(node.body) > 1 else node.body[0]
    return lines[node.lineno - 1 : first.lineno]


def _is_exempt(lines: list[str]) -> bool:
    return any(EXEMPT.search(line) for line in lines)


def main(folder: Path) -> int:
    """Check every Python and SQL file below `folder`; 1 when one breaks a rule."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".sql"})
    found = [advice for path in paths for advice in check_file(path)]
    for advice in found:
        print(advice)
    if found:
        print("or exempt it with a reason: `# size: why it is better in one piece`")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(max(main(Path(folder)) for folder in sys.argv[1:] or ("src/holdfast", "proof")))
