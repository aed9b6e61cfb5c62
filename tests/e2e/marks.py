"""The results of the nodes of ``layers_app``, which each depend on three nodes before them."""

from msgspec import Struct

PARENTS = 3
LIMIT = 1_000_003
"""Numbers are counted modulo this prime."""


class Mark(Struct, frozen=True):
    """The result of a node: where it stands, and a number that depends on those of all nodes before it."""

    layer: int
    place: int
    number: int


def first(place: int) -> Mark:
    """Return the result of a node without parents."""
    return Mark(0, place, place + 1)


def following(place: int, parents: list[Mark]) -> Mark:
    """Return the result of a node with these parents."""
    (layer,) = {each.layer for each in parents}
    return Mark(layer + 1, place, sum(weight * each.number for weight, each in enumerate(parents, 1)) % LIMIT)


def parents_of(place: int, width: int) -> list[int]:
    """Return the places of the parents of a node, in the layer before its own."""
    return [(place + step) % width for step in range(PARENTS)]
