"""Jobs that a person has ticked in the list: their ids, each with the state in which the page showed it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from holdfast._core.job import State
from holdfast._core.view import JobView
from holdfast.dashboard.actions import EFFECTS, OFFERED, job_actions
from holdfast.dashboard.words import TABS, short
from holdfast.errors import ConfigurationError
from holdfast.http.job_verbs import VERBS
from holdfast.http.operations import fits
from holdfast.http.permissions import Action

FIELD: Final = "job"
"""The field of a form that has a job and its state; a form may have several."""
MOST_SELECTED: Final = 50
"""The rows of a page."""


class Tick(Struct, frozen=True):
    """The checkbox of a row. ``label``: what people hear who do not see the row."""

    value: str
    label: str

    @classmethod
    def of(cls, job: JobView) -> "Tick":
        """Return the checkbox of a job."""
        return cls(f"{job.id}:{job.state}", f"Select {job.task} {short(job.id)}")


class Choice(Struct, frozen=True):
    """An action on ticked jobs. ``link``: where a form sends them. ``fits``: the states of jobs on the page that it changes."""

    name: str
    link: str
    fits: Sequence[str]


def fields(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the fields of a form; the ticked jobs become one, with commas between them.

    >>> fields([("job", "1:failed"), ("job", "2:held"), ("reason", "a"), ("reason", "b")])
    {'job': '1:failed,2:held', 'reason': 'b'}
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]},{value}" if name == FIELD and name in found else value
    return found


def chosen_in(given: Mapping[str, str]) -> dict[UUID, State]:
    """Return the ticked jobs with their states, none without a tick. Raises ``ConfigurationError`` for values that a page does not send."""
    found: dict[UUID, State] = {}
    for each in filter(None, given.get(FIELD, "").split(",")):
        job, _, state = each.partition(":")
        try:
            found[UUID(job)] = State(state)
        except ValueError:
            raise ConfigurationError([f"{FIELD}={each!r}: use the id of a job, a colon and its state"]) from None
    if len(found) > MOST_SELECTED:
        raise ConfigurationError([f"{FIELD}: select at most {MOST_SELECTED} jobs at once"])
    return found


def choices(jobs: Sequence[JobView], may: frozenset[Action]) -> list[Choice]:
    """Return the actions that fit at least one of the jobs."""
    fitting = {state: job_actions(state, may) for state in TABS if any(job.state is state for job in jobs)}
    found = {action: [state.value for state, actions in fitting.items() if action in actions] for action in OFFERED}
    return [Choice(EFFECTS["job", each].name, f"/actions/selected/{each}", states) for each, states in found.items() if states]


def in_words(chosen: Mapping[UUID, State], action: Action) -> str:
    """Return in which states the jobs were seen, and how many of them the action does not fit.

    >>> print(in_words({UUID(int=1): State.FAILED, UUID(int=2): State.RUNNING}, Action.RETRY))
    You selected 1 running and 1 failed. 1 of them stays as it is: this does not fit its state. A job that has moved on is left alone.
    """
    counts = Counter(chosen.values())
    parts = [f"{counts[state]} {state}" for state in TABS if counts[state]]
    seen = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    left = sum(not fits(VERBS[action], state) for state in chosen.values())
    stay = "stays as it is: this does not fit its state" if left == 1 else "stay as they are: this does not fit their state"
    moved = "A job that has moved on is left alone."
    return f"You selected {seen}. " + (f"{left} of them {stay}. " if left else "") + moved
