"""Files of SQL, each with the parts that it includes.

``-- include claimable(job, :wall)`` stands for ``parts/claimable.sql`` of the same folder. The first line of a part is a comment with
its name and its parameters. Each parameter is replaced by the argument in the including line, as words and not as a value. A part may
include other parts. A comment in front of a part's first line of SQL is not copied.

Parameters are named, as in ``:tasks``. SQLite binds them by their names. For PostgreSQL ``numbered`` turns them into ``$1``, ``$2`` and
so on, in the order in which comment lines that begin with ``-- :`` declare them.
"""

import re
from collections.abc import Iterator
from pathlib import Path

_INCLUDE = re.compile(r"-- include (\w+)\(")
_HEAD = re.compile(r"-- (\w+)\(([\w, ]*)\)")
_DECLARATION = re.compile(r"^ *-- (:[a-z_].*)$", re.MULTILINE)
_NAME = re.compile(r":([a-z_]\w*)")
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|:([a-z_]\w*)")


def read(path: Path) -> str:
    """Return the text of a file, with the text of a part in place of each include."""
    return _expanded(path.read_text(encoding="utf-8"), path.parent)


def parameters_of(text: str) -> list[str]:
    """Return the names of the parameters that a statement declares, in their order."""
    return list(dict.fromkeys(name for line in _DECLARATION.findall(text) for name in _NAME.findall(line)))


def numbered(text: str) -> str:
    """Return the statement with ``$1`` for the first parameter that it declares, ``$2`` for the second; strings and comments stay."""
    positions = {name: position for position, name in enumerate(parameters_of(text), 1)}
    return _PARAMETER.sub(lambda found: f"${positions[found[1]]}" if found[1] else found[0], text)


def parts_of(path: Path) -> frozenset[str]:
    """Return the names of all parts that a file includes, also those that other parts include."""
    direct = {name for name, _, _, _ in _includes(path.read_text(encoding="utf-8"))}
    folder = path.parent if path.parent.name == "parts" else path.parent / "parts"
    return frozenset(direct).union(*(parts_of(folder / f"{name}.sql") for name in direct))


def _expanded(text: str, folder: Path) -> str:
    pieces, done = [], 0
    for name, arguments, start, end in _includes(text):
        indentation = re.match(r" *", text[text.rfind("\n", 0, start) + 1 :])
        assert indentation is not None
        part = _expanded(_part(folder / "parts" / f"{name}.sql", arguments), folder)
        pieces += [text[done:start], part.replace("\n", "\n" + indentation.group())]
        done = end
    return "".join([*pieces, text[done:]])


def _part(path: Path, arguments: list[str]) -> str:
    """Return the text of a part, with these arguments in place of its parameters."""
    text = path.read_text(encoding="utf-8")
    head = _HEAD.match(text)
    names = [] if head is None else head[2].split(", ") if head[2] else []
    if head is None or head[1] != path.stem or len(names) != len(arguments):
        raise ValueError(f"{path.name}: its first line must be -- {path.stem}(…), with {len(arguments)} parameters")
    body = re.sub(r"\A(?:--[^\n]*\n)+", "", text).rstrip()
    given = dict(zip(names, arguments, strict=True))
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: given[found[1]], body) if names else body


def _includes(text: str) -> Iterator[tuple[str, list[str], int, int]]:
    """Yield each include of the text: the name of the part, its arguments, and where the include starts and ends."""
    for found in _INCLUDE.finditer(text):
        arguments, depth, place = [""], 1, found.end()
        while depth:
            letter = text[place]
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 1:
                arguments.append("")
            elif depth:
                arguments[-1] += letter
            place += 1
        yield found[1], [each.strip() for each in arguments if each.strip()], found.start(), place
