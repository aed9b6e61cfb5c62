"""The output of a workflow's node, which functions that build a graph pass on before there is a value."""

from collections.abc import Mapping
from typing import ClassVar, NoReturn

from holdfast._engine.tasks.reference import Reference
from holdfast.errors import ConfigurationError


class NotAnArgument:
    """A part of a workflow that stands for no value. ``instead``: why it is not an argument of ``bind``, and what is."""

    __slots__ = ()
    instead: ClassVar[str]


class Output:
    """Stands for the result of a node in the arguments of another one. Each use of its value raises ``ConfigurationError``."""

    __slots__ = ("_reference",)

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def __repr__(self) -> str:
        return f"<output of {self._reference.node}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)  # copies, debuggers and notebooks ask for such names, and expect to miss them
        _refuse(self)


def _refuse(output: Output, *_: object) -> NoReturn:
    remedy = "pass it on whole, as an argument of bind(…); for its items use w.map and each(…), else compute with it in a task"
    raise ConfigurationError([f"the output of {output._reference.node!r} has no value before its node has run: {remedy}"])


_UNARY = "str format bool iter next aiter await reversed len int float index round neg pos abs invert fspath call enter aenter"
_COMPARISONS = "eq ne lt le gt ge contains getitem"
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and or xor"

for _name in (*_UNARY.split(), *_COMPARISONS.split(), *_BINARY.split(), *(f"r{each}" for each in _BINARY.split())):
    setattr(Output, f"__{_name}__", _refuse)


def references_in(arguments: Mapping[str, object]) -> dict[str, Reference | list[Reference]]:
    """Return the arguments that stand for results, one or a list of them.

    ``ConfigurationError`` for a list with other values, too, and for nodes and bound tasks.
    """
    found = dict[str, Reference | list[Reference]]()
    for name, value in arguments.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, NotAnArgument):
                raise ConfigurationError([f"{name}: {each.instead}"])
        if isinstance(value, Output):
            found[name] = value._reference
        elif isinstance(value, list | tuple) and (some := [each._reference for each in value if isinstance(each, Output)]):
            if len(some) < len(value):
                raise ConfigurationError([f"{name}: outputs of nodes beside other values in one list: use outputs only"])
            found[name] = some
    return found


def outputs_of(references: Mapping[str, Reference | list[Reference]]) -> dict[str, object]:
    """Return the outputs that arguments stand for, as a graph passes them to the function of a workflow in it."""
    return {
        name: [Output(each) for each in given] if isinstance(given, list) else Output(given) for name, given in references.items()
    }
