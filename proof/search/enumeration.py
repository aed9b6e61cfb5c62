"""All small worlds to a depth: a script, and every way to deviate from it once, then every way to do so again."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from holdfast._core.book.book import Book
from proof.checker.hooks import HookedBook
from proof.checker.shapes import shape_of
from proof.checker.verdicts import PROPERTIES
from proof.search.deviations import Deviation, Until, What
from proof.search.scripts import Script
from proof.search.small_worlds import LOOKS, Call, SmallWorld
from proof.simulator.profiles import Profile
from proof.simulator.simulation import Outcome, watch

FLOW = (What.PAUSE_FLOW, What.CANCEL_FLOW, What.RETRY_FLOW)
"""What an operator may do to a workflow: only in scripts that have one."""
EXTRA = (*FLOW, What.SIGNAL)
SCRIPTS = (
    Script("one", ("resuming",)),
    Script("file", ("resuming",), profile=Profile.SQLITE),
    Script("objects", ("resuming",), profile=Profile.OBJECTS),
    Script("limit", ("steady",)),
    Script("batch", ("long", "parent")),
    Script("key", ("quick", "quick"), key="k"),
    Script("fatal", ("crashing_once",)),
    Script("hook", ("long",), has_hooks=True),
    Script("queue", ("long",), has_queue=True),
    Script("join", members=(("node", ()), ("node", ()), ("node", (0, 1))), extra=FLOW),
    Script("signal", ("waiting",), extra=(What.SIGNAL,)),
    Script("grow", members=(("gathering", ()), ("joining", ()), ("node", (0, 1))), extra=FLOW),
    Script("after", ("crashing_once",), is_awaited=True, extra=FLOW),
    Script("tick", ticks=2),
    Script("ahead", ("blocking", "quick", "quick", "quick", "quick"), ahead=3, concurrency=1, window=4),
)
WINDOW = 2
ALWAYS = (Until.NEXT, Until.TAKEN, Until.DONE)
UNTILS: dict[What, tuple[Until, ...]] = {
    What.LATE: (Until.TAKEN, Until.DONE), What.TWICE: ALWAYS, What.HELD: (Until.NEXT, Until.TAKEN),
    What.ANSWER_HELD: (Until.NEXT, Until.TAKEN), What.CRASH_SENT: ALWAYS, What.POWER_LOST: (Until.NEXT, Until.DONE),
    What.FREEZE_BEFORE: ALWAYS, What.FREEZE_AFTER: ALWAYS, What.CREW_FREEZE_BEFORE: ALWAYS, What.CREW_FREEZE_AFTER: ALWAYS,
    What.CUT_OFF: ALWAYS, What.OUTAGE: (Until.NEXT, Until.DONE),
    What.SWAP: (), What.RELEASE_BEFORE: (), What.RELEASE_AFTER: (),  # not at any call
}  # fmt: skip
ALL = tuple((what, until) for what in What if what not in EXTRA for until in UNTILS.get(what, (Until.NOTHING,)))
SHARP = (
    (What.ANSWER_LOST, Until.NOTHING), (What.LATE, Until.TAKEN), (What.TWICE, Until.TAKEN), (What.HELD, Until.TAKEN),
    (What.CRASH_BEFORE, Until.NOTHING), (What.CRASH_AFTER, Until.NOTHING), (What.CRASH_SENT, Until.TAKEN),
    (What.CREW_CRASH_AFTER, Until.NOTHING), (What.POWER_LOST, Until.DONE), (What.CREW_FREEZE_BEFORE, Until.TAKEN),
    (What.CREW_FREEZE_AFTER, Until.TAKEN), (What.CUT_OFF, Until.TAKEN), (What.CANCEL, Until.NOTHING), (What.RETRY, Until.NOTHING),
)  # fmt: skip
"""The few deviations of which the others are weaker forms."""
AGAIN = (
    (What.ANSWER_LOST, Until.NOTHING), (What.LATE, Until.TAKEN), (What.CRASH_AFTER, Until.NOTHING), (What.CRASH_SENT, Until.TAKEN),
    (What.POWER_LOST, Until.DONE), (What.CREW_FREEZE_BEFORE, Until.TAKEN), (What.CUT_OFF, Until.TAKEN),
    (What.CANCEL, Until.NOTHING),
)  # fmt: skip
"""Those of them that are added to another deviation: just before a call is the same moment as just after the call before it."""

Deviations = tuple[Deviation, ...]
Run = Callable[[Iterable[Deviations]], Iterable["Trial"]]


class Trial(Struct):
    """A world that was run: what broke in it, and which deviations could be added."""

    deviations: Deviations
    problems: list[str]
    shape: str
    calls: list[Call]
    moments: list[int]


class Reach(StrEnum):
    """The worlds that are run, of those with at most the given number of deviations."""

    SHARP = "sharp"  # those of sharp deviations at calls that change something
    EVERY = "every"  # also those of any one deviation, at any call or moment
    FURTHER = "further"  # and each of these goes on with sharp ones


class Enumeration:
    """The worlds of a script. ``window``: the number of calls that change something between one deviation and the next.

    ``worlds``: the number run so far. ``left``: those to run before the next ones are known. ``shapes``: the shapes seen so far.
    """

    def __init__(self, script: Script, depth: int, reach: Reach = Reach.EVERY, *, window: int = WINDOW) -> None:
        self.script, self.depth, self.reach, self.window = script, depth, reach, max(window, script.window)
        self.worlds = 0
        self.left = 0
        self.shapes: set[str] = set()

    def trials(self, run: Run) -> Iterator[Trial]:
        """Run the worlds, shallow ones first. Of worlds that differ only in times, only the first gets further deviations."""
        sharp: list[Deviations] = [()]
        others: list[Deviations] = []
        for depth in range(self.depth + 1):
            news = yield from self._try(sharp, run)
            more = yield from self._try(others, run)
            if depth == self.depth:
                return
            extra = self.script.extra
            others = [(each,) for each in _every(news[0], extra)] if depth == 0 and self.reach is not Reach.SHARP else []
            sharp = [
                (*trial.deviations, each)
                for trial in (news + more if self.reach is Reach.FURTHER else news)
                for each in _sharp(trial, self.window, extra)
            ]
            others = list(dict.fromkeys([*sharp, *others]))[len(sharp) :]

    def _try(self, worlds: list[Deviations], run: Run) -> Generator[Trial, None, list[Trial]]:
        """Run these worlds, and keep those with a new shape."""
        news = []
        self.left = len(worlds)
        for trial in run(worlds):
            self.worlds, self.left = self.worlds + 1, self.left - 1
            if trial.shape not in self.shapes:
                self.shapes.add(trial.shape)
                news.append(trial)
            yield trial
        return news


def _every(trial: Trial, extra: Sequence[What]) -> Iterator[Deviation]:
    """Yield each deviation at each call, and each order of each moment.

    A call that repeats an earlier one, with no change in between, does not count as another call.
    """
    seen: set[tuple[str, str]] = set()
    for at, call in enumerate(trial.calls, 1):
        if call.is_busy and call.verb not in LOOKS:
            seen.clear()
        if (call.sender, call.verb) not in seen:
            seen.add((call.sender, call.verb))
            for what, until in (*ALL, *_plainly(extra)):
                yield Deviation(at, what, until)
    for at, several in enumerate(trial.moments, 1):
        for first in range(1, several):
            yield Deviation(at, What.SWAP, first=first)


def _plainly(what: Sequence[What]) -> list[tuple[What, Until]]:
    return [(each, Until.NOTHING) for each in what]


def _sharp(trial: Trial, window: int, extra: Sequence[What]) -> Iterator[Deviation]:
    """Yield the sharp deviations at calls that change something, after the last deviation so far."""
    after = max((each.at for each in trial.deviations if each.what is not What.SWAP), default=0)
    busy = [(at, call) for at, call in enumerate(trial.calls, 1) if at > after and call.is_busy]
    for at, call in busy[:window] if after else busy:
        for what, until in (*(AGAIN if trial.deviations else SHARP), *_plainly(extra)):
            yield Deviation(at, what, until)
        if call.is_held:
            yield Deviation(at, What.RELEASE_BEFORE)
            yield Deviation(at, What.RELEASE_AFTER)


def perform(script: Script, deviations: Sequence[Deviation], kind: type[Book] | None = None) -> tuple[Outcome, Trial]:
    """Run one world; ``kind`` may be a broken store."""
    world = SmallWorld(script, deviations, kind or (HookedBook if script.has_hooks else Book))
    outcome = watch(world, world.live)
    problems = [f"{each.name} ({PROPERTIES[each.name]}): {each.text}" for each in outcome.report.violations]
    trial = Trial(
        deviations=tuple(deviations),
        problems=[*outcome.complaints, *problems],
        shape=shape_of(outcome.history),
        calls=world.calls,
        moments=world.loop.moments,
    )
    return outcome, trial


def attempt(script: Script, deviations: Deviations, kind: type[Book] | None = None) -> Trial:
    """Run one world, and return only what the next ones need of it."""
    return perform(script, deviations, kind)[1]
