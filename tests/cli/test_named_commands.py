"""Every command that a message of the package names exists, with the options and the number of arguments that it is named with."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import holdfast
from holdfast.cli.commands import root

SOURCE = Path(holdfast.__file__).parent
COMMAND = re.compile(r"(?<=`)holdfast [a-z][^`]*(?=`)|(?<=: )holdfast [a-z][^;`]*")
GROUPS = frozenset({"errors", "jobs", "store"})
"""Of these a message names the whole group, which cannot be pasted."""
IN_HELP = "holdfast broker --tokens"
"""An option to which the help of another command refers."""
STANDS_FOR = {
    "facts.weight + 1": "2",
    "kind": "queue",
    "options": "--concurrency 1",
    "group.key": "abcd",
    "name": "x",
    "job.state.value": "running",
    "where": "queue q",
    "limit.active + 1": "3",
    "rest": "",
}
"""What is in place of an expression; of all others: an id."""
ID = "01a20386-38bd-746c-85ed-47a9829d8f2c"


def literals(node: ast.AST) -> Iterator[str]:
    """Return the strings below a node that are not documentation, with values in place of their expressions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
            yield child.value
        elif isinstance(child, ast.JoinedStr):
            yield "".join(_text(part) for part in child.values)
        else:
            yield from literals(child)


def _text(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    written = re.sub(r"^quote\((.*)\)$", r"\1", ast.unparse(part.value))
    return STANDS_FOR.get(written, ID)


def commands() -> list[str]:
    sources = (source for path in SOURCE.rglob("*.py") if "holdfast " in (source := path.read_text()))
    found = {command for source in sources for text in literals(ast.parse(source)) for command in COMMAND.findall(text)}
    return sorted(each for each in found if each != IN_HELP and (each.split()[1] not in GROUPS or len(each.split()) > 2))


def check(command: str) -> None:
    """Parse a command as the command line does, which raises if it does not exist so."""
    words, found, context = shlex.split(command)[1:], root, click.Context(root)
    while isinstance(found, click.Group):
        name, chosen, words = found.resolve_command(context, words)
        assert name is not None
        assert chosen is not None
        found, context = chosen, click.Context(chosen, parent=context, info_name=name)
    values, rest, _ = found.make_parser(context).parse_args(args=words)
    assert rest == []
    for parameter in found.params:
        value = values.get(str(parameter.name))
        is_given = isinstance(value, str | list | tuple)  # else it is a flag, or stands for what is not given
        if is_given and not isinstance(parameter.type, click.Path | click.File):
            parameter.type_cast_value(context, value)


def test_each_command_that_a_message_names_exists(subtests: pytest.Subtests) -> None:
    found = commands()
    for command in found:
        with subtests.test(command):
            check(command)
    assert len(found) > 40
