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


def literals(path: Path) -> Iterator[str]:
    """Return the strings of a module that are not documentation, with values in place of their expressions."""
    tree = ast.parse(path.read_text())
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    docs = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if node in docs or node in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(_text(part) for part in node.values)


def _text(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    written = re.sub(r"^quote\((.*)\)$", r"\1", ast.unparse(part.value))
    return STANDS_FOR.get(written, ID)


def commands() -> list[str]:
    found = {command for path in SOURCE.rglob("*.py") for text in literals(path) for command in COMMAND.findall(text)}
    return sorted(each for each in found if each != IN_HELP and (each.split()[1] not in GROUPS or len(each.split()) > 2))


def test_the_commands_of_all_messages_are_found() -> None:
    assert len(commands()) > 40


@pytest.mark.parametrize("command", commands())
def test_a_command_that_a_message_names_exists(command: str) -> None:
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
