"""A failing world, explained: the few decisions that suffice to break it, and the story of their effects."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from proof.report.summary import problems_of
from proof.search.cases import Case, broken_by, write
from proof.search.decisions import describe
from proof.search.shrinking import Shrinker
from proof.simulator.plans import Plan
from proof.simulator.simulation import Outcome

COMMAND = "python -m proof.simulate"
_NAMED = re.compile(r"(\w+ \w+) is (m\d+-\d+-\d+)")  # as the story introduces the processes that take part


def explain(found: Outcome, run: Callable[[Plan], Outcome], *, budget: int, folder: Path, revision: str) -> Iterator[str]:
    """Yield the lines that explain a failing world, shrunk with at most ``budget`` worlds. ``run`` plays one.

    The shrunk world is written to a file in the folder.
    """
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
    """Yield the decisions of a world, one a line, and then its story."""
    lines = [describe(each) for each in sorted(outcome.decisions, key=lambda each: each.time)]
    story = "nothing broke" if outcome.is_clean else outcome.explain()
    yield _describe_world(outcome.plan)
    yield from lines
    names = {process: name for name, process in _NAMED.findall(story)}
    named = {title: process for title, process in outcome.titles.items() if any(title in line for line in lines)}
    aliases = [f"{title} is called {names[process]}" for title, process in named.items() if process in names]
    if aliases:
        yield f"In the story {', '.join(aliases)}."
    yield story


def _describe_world(plan: Plan) -> str:
    more = [name for name in ("hooks", "queue", "releases") if getattr(plan, f"has_{name}")]
    crews = f"{plan.supervisors} supervisors with {plan.processes} workers of {plan.concurrency} slots each"
    ttls = " and ".join(f"{ttl:g} s" for ttl in sorted({each.timing.ttl for each in plan.all_settings}))
    store = f"a {plan.profile} store, leases by its {plan.lease_clock} clock, ttl {ttls}"
    return f"{crews}; {store}; all is well after {plan.chaos:.0f} s{'; with ' if more else ''}{' and '.join(more)}"
