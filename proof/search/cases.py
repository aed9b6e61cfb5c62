"""A world that broke a property, as a file: everything that happens in it, and what it broke."""

from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast._core.book.book import Book
from proof.simulator.plans import Plan
from proof.simulator.simulation import Outcome, perform

COMPLAINT = "complaint"  # not a property: the engine raised an error that it should not raise


class Case(Struct, frozen=True, kw_only=True):
    """One kept world. ``breaks``: the broken property. ``mutant``: the mutant that breaks it; empty if the engine itself broke it.

    ``revision``: the commit at which it was found.
    """

    what: str
    breaks: str
    mutant: str = ""
    revision: str = ""
    seed: int
    plan: Plan

    def play(self, kind: type[Book] = Book) -> Outcome:
        """Run the world of this case with the code of today."""
        return perform(self.plan, self.seed, kind)


def broken_by(outcome: Outcome) -> list[str]:
    """Return the names of the broken properties, in the order in which they broke."""
    names = dict.fromkeys(violation.name for violation in outcome.report.violations)
    return [*names, *([COMPLAINT] if outcome.complaints else [])]


def read(path: Path) -> Case:
    """Return the case that a file holds."""
    return msgspec.json.decode(path.read_bytes(), type=Case)


def write(case: Case, path: Path) -> None:
    """Write the case, indented, so that people can read it."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")
