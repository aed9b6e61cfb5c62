"""A value that stands for the result of a workflow's member in the arguments of another one."""

from collections.abc import Mapping
from uuid import UUID

from msgspec import Struct

from holdfast.errors import ConfigurationError


class Reference(Struct, frozen=True):
    """The result of a member, or what is at ``path`` in it. ``is_each``: one item of it, which is a list."""

    job: UUID
    path: tuple[str, ...] = ()
    is_each: bool = False


def references_in(arguments: Mapping[str, object]) -> dict[str, Reference | list[Reference]]:
    """Return the arguments that stand for results, one or a list of them; ``ConfigurationError`` for a list with other values, too."""
    found = dict[str, Reference | list[Reference]]()
    for name, value in arguments.items():
        if isinstance(value, Reference):
            found[name] = value
        elif isinstance(value, list | tuple) and (some := [each for each in value if isinstance(each, Reference)]):
            if len(some) < len(value):
                raise ConfigurationError([f"{name}: outputs of nodes beside other values in one list: use outputs only"])
            found[name] = some
    return found
