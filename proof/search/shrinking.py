"""Makes a failing world as small as possible: as few decisions as still break the same property, in the smallest world for them.

Every decision stands for itself. When one is left out, the others happen as before, until a later one depended on it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from holdfast._core.policy import RETENTION_FLOOR
from proof.search.cases import broken_by
from proof.search.decisions import Birth, Decision, Mishap, Operation, Strike
from proof.simulator.plans import Plan
from proof.simulator.profiles import Profile
from proof.simulator.simulation import Outcome

T = TypeVar("T")
BUDGET = 400  # worlds that may be tried
FEW = 60  # at most this many decisions are tried a second time
SIMPLEST = "quick"
SMALLER: tuple[dict[str, Any], ...] = (
    {"profile": Profile.PLAIN, "longest_write": 0.0}, {"lease_clock": "server"}, {"has_releases": False},
    {"outfits": ()}, {"backlog": 0}, {"has_queue": False}, {"has_hooks": False}, {"operations": ()}, {"supervisors": 1},
    {"supervisors": 2}, {"processes": 1},
    {"clients": 1}, {"concurrency": 1}, {"hint_loss": 0.0}, {"keys": 0}, {"expires": False}, {"has_strangers": False},
    {"floor": RETENTION_FLOOR}, {"step": 0.0}, {"rate_error": 0.0},
    {"schedules": None}, {"lanes": None}, {"connections": 0}, {"apps": 0}, {"apps": 1},
)  # fmt: skip


class Shrinker:
    """Play smaller and smaller worlds. ``run`` plays one; ``tried`` counts them."""

    def __init__(self, run: Callable[[Plan], Outcome], *, budget: int = BUDGET) -> None:
        self.tried = 0
        self._run = run
        self._budget = budget
        self._rejected: set[bytes] = set()

    def shrink(self, found: Outcome, name: str = "") -> Outcome:
        """Return the smallest world found that breaks the named property, or the one that the given world breaks first."""
        name = name or broken_by(found)[0]
        best = self._try(structs.replace(found.plan, script=tuple(found.decisions)), name)
        if best is None:  # the failure depends on chance that no decision records: keep the world as it was found
            return found
        size = -1
        while size != len(best.decisions):
            size = len(best.decisions)
            best = self._with_fewer_decisions(best, name)
            best = self._in_a_smaller_world(best, name)
        return self._run(structs.replace(best.plan, script=tuple(best.decisions)))  # without the decisions that had no effect

    def _with_fewer_decisions(self, best: Outcome, name: str) -> Outcome:
        def attempt(script: list[Decision]) -> list[Decision] | None:
            nonlocal best
            smaller = self._try(structs.replace(best.plan, script=tuple(script)), name)
            if smaller is None and len(script) < FEW:  # leaving decisions out may have moved the numbers of calls
                smaller = self._try(structs.replace(best.plan, script=tuple(map(_unnumbered, script))), name)
            best = smaller or best
            return None if smaller is None else list(smaller.decisions)

        for is_kept in _guesses(best, name):
            script = [each for each in best.decisions if is_kept(each)]
            if len(script) < len(best.decisions):
                attempt(script)
        fewest(best.decisions, attempt)
        return best

    def _in_a_smaller_world(self, best: Outcome, name: str) -> Outcome:
        for change in _changes(best):
            has_fixed_clock = best.plan.profile is Profile.OBJECTS and "lease_clock" in change
            if not has_fixed_clock and any(getattr(best.plan, key) != value for key, value in change.items()):
                best = self._try(structs.replace(best.plan, **change), name) or best
        for each in best.decisions:
            if isinstance(each, Birth) and each.task != SIMPLEST:
                simpler = structs.replace(each, task=SIMPLEST)
                script = tuple(simpler if (other == each) else other for other in best.decisions)
                best = self._try(structs.replace(best.plan, script=script), name) or best
        return best

    def _try(self, plan: Plan, name: str) -> Outcome | None:
        """Return the outcome of a plan if it breaks the same property, or None."""
        key = msgspec.json.encode(plan)
        if self.tried >= self._budget or key in self._rejected:
            return None
        self.tried += 1
        outcome = self._run(plan)
        if name in broken_by(outcome):
            return outcome
        self._rejected.add(key)
        return None


def fewest(items: Sequence[T], attempt: Callable[[list[T]], list[T] | None]) -> list[T]:
    """Return as few items as suffice. ``attempt`` returns which of the given items were needed at most, or ``None`` if they do not suffice.

    No single item of the result can be left out.
    """
    left, size = list(items), max(1, len(items) // 2)
    while left:
        before, place = len(left), 0
        while place < len(left):
            done = attempt(left[:place] + left[place + size :])
            place, left = (place + size, left) if done is None else (place, done)
        if size == 1 and len(left) == before:
            break
        size = max(1, size // 2)
    return left


def _unnumbered(decision: Decision) -> Decision:
    return structs.replace(decision, nth=0) if isinstance(decision, Mishap) and decision.verb else decision


def _guesses(outcome: Outcome, name: str) -> Iterator[Callable[[Decision], bool]]:
    """Yield tests for decisions that may suffice: those before the violation, and those of all but one harmful kind."""
    seen = next((violation.event for violation in outcome.report.violations if violation.name == name), len(outcome.history))
    last = outcome.history.events[min(seen, len(outcome.history) - 1)].time
    yield lambda each: each.time <= last
    yield lambda each: not isinstance(each, Operation)
    yield lambda each: not isinstance(each, Strike)
    yield lambda each: not isinstance(each, Mishap)


def _changes(outcome: Outcome) -> Iterator[dict[str, Any]]:
    plan = outcome.plan
    yield {"strikes": (), "mix": structs.replace(plan.mix, rates={}, focus="")}  # of no use to a script
    yield from SMALLER
    births = [each for each in outcome.decisions if isinstance(each, Birth)]
    clients = max((each.client for each in births), default=0) + 1
    yield {"clients": clients, "jobs": clients * (max((each.job for each in births), default=0) + 1)}
    yield {"mix": structs.replace(plan.mix, rates={}, focus="", latency=0.0)}
    yield {"chaos": plan.chaos / 2}
