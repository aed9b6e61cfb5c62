"""What people may do on the pages: each action with what it does, whether it can be undone, and the jobs and states it is for."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from holdfast._core.job import State
from holdfast._core.requests import FITTING
from holdfast.http.job_verbs import VERBS
from holdfast.http.permissions import Action

TYPED_ABOVE: Final = 1000
"""The number of jobs above which a person types it before they are deleted."""


class Effect(Struct, frozen=True):
    """What an action does, and what becomes of it afterwards."""

    name: str
    text: str
    undo: str


EFFECTS: Final[Mapping[tuple[str, Action], Effect]] = {
    ("job", Action.CANCEL): Effect(
        "Cancel", "A job that waits ends now. A job that runs is asked to end.", "A cancelled job can be retried."
    ),
    ("job", Action.RETRY): Effect(
        "Retry",
        "It runs again now, from its last checkpoint, with all of its attempts.",
        "What its code did before is not undone. Until it runs, it can be cancelled.",
    ),
    ("job", Action.RESCHEDULE): Effect("Reschedule", "It starts no earlier than you say.", "It can be rescheduled again."),
    ("job", Action.DELETE): Effect(
        "Delete", "Every trace of it is removed. A job that a worker runs stays.", "This cannot be undone."
    ),
    ("job", Action.REVEAL): Effect(
        "Reveal",
        "Its data is shown once with the values that are hidden elsewhere. It is recorded that you looked.",
        "What you have seen cannot be taken back.",
    ),
    ("task", Action.ENQUEUE): Effect(
        "Enqueue a job", "It waits in its queue for a worker that knows its task.", "Until it runs, it can be cancelled."
    ),
    ("queue", Action.PAUSE): Effect(
        "Pause", "No more jobs of it start. Running ones go on, and new ones wait.", "It can be resumed at any time."
    ),
    ("queue", Action.RESUME): Effect("Resume", "Its jobs start again.", "It can be paused again."),
    ("queue", Action.PURGE): Effect(
        "Purge", "All of its waiting jobs are deleted. Running, held and finished ones stay.", "This cannot be undone."
    ),
    ("schedule", Action.RUN): Effect("Run now", "Its job is enqueued once, beside its ticks.", "The job can be cancelled."),
    ("schedule", Action.PAUSE): Effect(
        "Pause",
        "It ticks no more, also after a new release. Ticks until it is resumed are left out.",
        "It can be resumed at any time.",
    ),
    ("schedule", Action.RESUME): Effect("Resume", "It goes on with its first tick after now.", "It can be paused again."),
    ("workflow", Action.CANCEL): Effect(
        "Cancel", "Its waiting nodes end now. Those that run are asked to end.", "A cancelled workflow can be retried."
    ),
    ("workflow", Action.RECOVER): Effect(
        "Recover", "What damage keeps from going on is repaired. An intact workflow does not change.", "There is nothing to undo."
    ),
    ("worker", Action.DRAIN): Effect(
        "Drain",
        "It takes no more jobs. Those that run get the grace to end, and what is left goes back to its queue free of charge. "
        "Then its process ends, and no other takes its place.",
        "It cannot be called off. Start a worker again where it ran.",
    ),
    ("rows", Action.RESET): Effect(
        "Reset stuck", "Rows that were in progress for too long are due again, and get another owner.", "This cannot be undone."
    ),
    ("operation", Action.STOP): Effect("Stop", "It ends after the batch that is being written.", "What it has done stays done."),
}
REASONED: Final = frozenset((Action.PAUSE,))
"""The actions that need a reason, because other operators find what is paused."""
OFFERED: Final = (Action.RETRY, Action.CANCEL, Action.RESCHEDULE, Action.DELETE)

_DONE: Final = {Action.RETRY: State.AVAILABLE, Action.CANCEL: State.CANCELLED}
"""The state that an action would only repeat."""


class Button(Struct, frozen=True):
    """A link to the confirmation of an action."""

    name: str
    link: str


def link_to(kind: str, action: Action, **target: str) -> str:
    """Return the path of the confirmation of an action.

    >>> link_to("queue", Action.PAUSE, name="mail")
    '/actions/queue/pause?name=mail'
    """
    return f"/actions/{kind}/{action}?{urlencode(target)}"


def button(kind: str, action: Action, name: str) -> Button:
    """Return the button for an action on one thing."""
    return Button(EFFECTS[kind, action].name, link_to(kind, action, name=name))


def buttons(kind: str, name: str, may: frozenset[Action], *actions: Action) -> list[Button]:
    """Return the buttons for those of the actions that the reader may take."""
    return [button(kind, action, name) for action in actions if action in may]


def job_actions(state: State, may: frozenset[Action]) -> Sequence[Action]:
    """Return the actions on jobs that fit this state, and that the reader of the page may take."""
    return [action for action in OFFERED if action in may and state in FITTING[VERBS[action]] and state is not _DONE.get(action)]
