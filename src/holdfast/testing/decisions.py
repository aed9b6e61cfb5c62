"""What a world does to those who live in it, as data: drawn from a seed, or given one by one, as a script.

Each says all that it needs, so that one can be left out and the others stay what they are.
"""

from collections.abc import Iterable

from msgspec import Struct

from holdfast.testing.fates import Fault


class Birth(Struct, frozen=True, tag=True):
    """A client enqueues this one of its jobs."""

    client: int
    job: int
    task: str = ""


class Mishap(Struct, frozen=True, tag=True):
    """What happens to the ``nth`` call of a verb by a process, counted from 1; an empty verb: of its calls of any."""

    process: str
    verb: str
    nth: int
    fault: Fault


class Strike(Struct, frozen=True, tag=True):
    """Something goes wrong around processes, at a time in seconds since the start.

    ``slot``: whose; ``pick``: which of those that live then, from 0 to 1; ``is_refusing``: who is cut off is told at once;
    ``is_for_ever``: that slot never comes back. ``whom``: who it was, only to be told.
    """

    time: float
    name: str
    slot: int = 0
    pick: float = 0.0
    seconds: float = 0.0
    is_refusing: bool = False
    is_for_ever: bool = False
    whom: str = ""


class Operation(Struct, frozen=True, tag=True):
    """An operator does something. ``pick``: to which of the jobs there are then, from 0 to 1."""

    time: float
    name: str
    pick: float
    queue: str
    delay: float


Decision = Birth | Mishap | Strike | Operation
Scripted = dict[str, dict[tuple[str, int], Fault]]


def look_into(script: Iterable[Decision] | None) -> tuple[set[tuple[int, int]] | None, Scripted | None]:
    """Which jobs a script knows of which client, and which calls of whom meet a fault."""
    if script is None:
        return None, None
    births, mishaps = set(), Scripted()
    for each in script:
        if isinstance(each, Birth):
            births.add((each.client, each.job))
        elif isinstance(each, Mishap):
            mishaps.setdefault(each.process, {})[each.verb, each.nth] = each.fault
    return births, mishaps
