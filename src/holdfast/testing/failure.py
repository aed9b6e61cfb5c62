"""A failing world, explained: the few decisions that are enough to break it, and the story of what they lead to."""

from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.testing.cases import Case, broken_by, write
from holdfast.testing.decisions import describe
from holdfast.testing.plans import Plan
from holdfast.testing.shrinking import Shrinker
from holdfast.testing.simulation import Outcome
from holdfast.testing.summary import problems_of

COMMAND = "python -m holdfast.testing.simulate"


def explain(found: Outcome, run: Callable[[Plan], Outcome], *, budget: int, folder: Path, revision: str) -> Iterator[str]:
    """Line by line, as small as ``budget`` worlds can make it; that world is left in a file. ``run``: plays one."""
    shrinker = Shrinker(run, budget=budget)
    small = shrinker.shrink(found)
    name = broken_by(small)[0]
    case = Case(what=problems_of(small)[0], breaks=name, revision=revision, seed=small.seed, plan=small.plan)
    path = folder / f"holdfast-seed-{small.seed}.json"
    write(case, path)
    count = f"{len(small.decisions)} of {len(found.decisions)} decisions break {name} alone"
    yield f"{count} ({shrinker.tried} worlds tried); this world again: {COMMAND} --script {path}"
    yield from tell(small)


def tell(outcome: Outcome) -> Iterator[str]:
    """What was decided, and what came of it."""
    decisions = sorted(outcome.decisions, key=lambda each: each.time)
    lines = [describe(each) for each in decisions]
    yield from lines
    people = {title: name for title, name in outcome.titles.items() if any(title in line for line in lines)}
    if people:
        yield "where " + ", ".join(f"{title} is {name}" for title, name in people.items())
    yield "nothing broke" if outcome.is_clean else outcome.explain()
