"""Commands of ``holdfast`` by their names."""

from collections.abc import Iterator

import click

from holdfast.cli.commands import root


def command(*words: str) -> click.Command:
    """Return the command of these words, for example ``command("jobs", "list")``; fail if there is none."""
    found: click.Command = root
    for word in words:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, word
        found = below
    return found


def below(*words: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of this command and of all commands below it."""
    yield words
    if isinstance(group := command(*words), click.Group):
        for name in group.list_commands(click.Context(group)):
            yield from below(*words, name)
