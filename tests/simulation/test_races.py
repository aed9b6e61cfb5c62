"""Small worlds of races: workflows that grow, jobs that wait for one that is retried, ticks, and starts beside voids."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from holdfast._core.book.book import Book
from holdfast._core.job import State, Token
from proof.checker.history import Event, JobRow, Phase
from proof.search.deviations import Deviation, Until, What
from proof.search.enumeration import SCRIPTS, Deviations, Enumeration, Reach, Trial, attempt, perform
from proof.search.scripts import Script
from tests.simulation import broken_growth as growth
from tests.simulation import broken_schedules as schedules
from tests.simulation import broken_stores as stores

NAMED = {script.name: script for script in SCRIPTS}

GUARDS: dict[str, tuple[str, str, type[Book], Callable[[], Any]]] = {
    "a root waits for what its members add": ("grow", "S18", Book, growth.roots_wait_for_no_children),
    "children raise the counters of what waits": ("grow", "S19", Book, growth.children_raise_no_counters),
    "a lost token adds no children": ("grow", "S7", growth.ChildrenOfLostTokens, nullcontext),
    "a parent waits for all its children": ("grow", "S18", Book, growth.first_child_releases),
    "a replayed gather remembers its children": ("grow", "S22", Book, growth.gathers_are_not_remembered),
    "an end is passed on to other flows": ("after", "S19", Book, growth.ends_reach_no_other_flow),
    "the state of a parent is read after its lock": ("after", "S19", growth.ParentsReadEarlier, nullcontext),
    "a retry reads dependents after its lock": ("after", "S19", growth.DependentsReadEarlier, nullcontext),
    "a tick moves its schedule once": ("tick", "S14", schedules.AdvanceUncompared, schedules.ticks_keyed_by_worker),
    "a tick and its job are one write": ("tick", "S14", Book, schedules.tick_and_job_apart),
}


@pytest.mark.parametrize(
    "guard", [pytest.param(each, marks=[pytest.mark.prove] * bool(at % 6)) for at, each in enumerate(GUARDS)]
)
def test_at_most_one_deviation_shows_that_a_guard_is_missing(guard: str) -> None:
    name, broken, kind, taken_out = GUARDS[guard]
    script = NAMED[name]
    with taken_out():
        trials = Enumeration(script, 1, Reach.SHARP).trials(partial(map, partial(attempt, script, kind=kind)))
        found = next(trial for trial in trials if any(problem.startswith(broken) for problem in trial.problems))
    assert not attempt(script, found.deviations).problems


def test_two_deviations_show_a_start_that_lands_after_a_void() -> None:
    """The start of claimed jobs lands when their supervisor has returned them, and before their worker has received the void."""
    script = NAMED["ahead"]
    held = Deviation(_numbers(script, "start_through")[0], What.HELD, Until.TAKEN)

    def run(worlds: Iterable[Deviations]) -> Iterator[Trial]:
        return (attempt(script, world, stores.StartWithoutVoids) for world in worlds if world[:1] in ((), (held,)))

    broken = [trial for trial in Enumeration(script, 2, Reach.SHARP).trials(run) if trial.problems]
    assert {len(trial.deviations) for trial in broken} == {2}
    assert all(problem.startswith("S1 ") for trial in broken for problem in trial.problems)
    assert not [trial for trial in broken if attempt(script, trial.deviations).problems]


def _numbers(script: Script, verb: str) -> list[int]:
    """Return the numbers of the calls of a verb in the run without deviations."""
    return [number for number, call in enumerate(attempt(script, ()).calls, 1) if call.verb == verb]


def _events(script: Script, *deviations: Deviation) -> list[Event]:
    outcome, _ = perform(script, deviations)
    assert outcome.is_clean, outcome.explain()
    return list(outcome.history)


def _rows(events: list[Event], verb: str) -> list[JobRow]:
    moved = [event for event in events if event.what == "job" and event.by is not None and event.by.verb == verb]
    return [event.after for event in moved if isinstance(event.after, JobRow)]


# each script has its race


def test_members_add_children_and_one_of_them_waits_for_its_own() -> None:
    events = _events(NAMED["grow"])
    assert any(row.member is not None and row.member.is_suspended for row in _rows(events, "adopt"))
    assert any(event.what == "enqueue" and event.by is not None and event.by.parent is not None for event in events)
    assert "children.returned" in {event.what for event in events}


def test_a_job_is_added_behind_one_that_is_retried_before_it_or_after_it() -> None:
    script = NAMED["after"]
    _, added = _numbers(script, "enqueue_after")
    assert State.FAILED in [row.state for row in _rows(_events(script), "enqueue")]
    late = _events(script, Deviation(added, What.LATE, Until.TAKEN))
    assert State.FAILED not in [row.state for row in _rows(late, "enqueue")]


def test_two_supervisors_fire_the_same_tick() -> None:
    answers = [
        (event.process, event.note) for event in _events(NAMED["tick"]) if event.what == "advance" and event.phase is Phase.OK
    ]
    assert {note for _, note in answers} == {"fired", "lost"}
    assert len({process for process, _ in answers}) == 2


def test_a_worker_and_its_supervisor_return_the_same_job() -> None:
    senders = defaultdict[tuple[UUID | None, Token | None], set[str]](set)
    for event in _events(NAMED["ahead"]):
        if event.what == "settle" and event.phase is Phase.INVOKE:
            senders[event.job, event.token].add(event.process)
    assert max(map(len, senders.values())) == 2
