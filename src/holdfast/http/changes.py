"""The one door through which requests change anything: who did it, why, and from where, beside what they did."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar
from uuid import UUID

from msgspec import Meta, Struct

from holdfast._engine.client.acting import Acting, acting
from holdfast.http.operation import Call
from holdfast.http.permissions import Action

MOST_REASON = 500
Reason = Annotated[str, Meta(max_length=MOST_REASON)]
Answer = TypeVar("Answer")


class Change(Struct, frozen=True, kw_only=True):
    """A change as an operator asked for it. ``target``: the path of what it is about. ``by``: the name of the sender.

    ``via``: the dashboard, or the API.
    """

    action: Action
    target: str
    by: str
    reason: str = ""
    via: str = "api"

    @classmethod
    def of(cls, call: Call, action: Action, target: str) -> "Change":
        """Return the change that a call asks for; its reason is in its body, or in its query."""
        reason = getattr(call.body, "reason", "") or getattr(call.asked, "reason", "")
        return cls(action=action, target=target, by=call.identity.name, reason=reason or "")


async def make(
    change: Change, act: Callable[[], Awaitable[Answer]], *, selector: str | None = None, operation: UUID | None = None
) -> Answer:
    """Make a change. Each verb of the API and of the pages passes here; its own write records who made it, and why.

    ``selector``: the jobs that it is for, as JSON. ``operation``: all verbs of one are recorded as one action.
    """
    who = Acting(who=change.by, origin=change.via, reason=change.reason or None, selector=selector, operation=operation)
    with acting(who):
        return await act()
