"""Where settings that are kept in the store come from: the code of a worker, or an operator, whom code does not overrule."""

from hashlib import sha256
from typing import Final

from msgspec import Struct, json

from holdfast._core.schedule import Source

MOST_REPLACED: Final = 20
"""The values from code that are remembered after they were replaced."""


class Origin(Struct, frozen=True):
    """Who set a value; ``replaced``: digests of the values from code that stood before it."""

    source: Source = Source.OPERATOR
    replaced: tuple[str, ...] = ()


def digest_of(value: object) -> str:
    """Return a string that is the same for equal values, and for no others."""
    return sha256(json.encode(value, order="sorted")).hexdigest()[:16]


def declaration(name: str, value: object) -> str:
    """Return how a worker's lease names, in its list, a value in its code."""
    return f"{name}={digest_of(value)}"


def may_declare(name: str, new: object, old: object | None, origin: Origin, living: frozenset[str]) -> bool:
    """Return whether a value from code replaces the present one, or sets it where there is none.

    What an operator set stays. In a rolling deploy old workers restart too: a value that was replaced before comes back only when no
    living worker declares the present one. ``living``: the declarations of living workers.
    """
    if old is None:
        return True
    if origin.source is Source.OPERATOR or digest_of(old) == digest_of(new):
        return False
    return digest_of(new) not in origin.replaced or declaration(name, old) not in living


def overruled(old: object, origin: Origin) -> Origin:
    """Return the origin of an operator's value that replaces the present one, which it remembers: so it differs from no origin."""
    return Origin(Source.OPERATOR, (*origin.replaced, digest_of(old))[-MOST_REPLACED:])


def declared(new: object, old: object | None, origin: Origin) -> Origin:
    """Return the origin of a value from code that replaces the present one."""
    if old is None:
        return Origin(Source.CODE)
    kept = tuple(each for each in (*origin.replaced, digest_of(old)) if each != digest_of(new))
    return Origin(Source.CODE, kept[-MOST_REPLACED:])
