"""The person who acts, from where, and why: what is recorded of an action beside the action itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from holdfast._core.audit import AuditNote
from holdfast._core.text import json_text
from holdfast._engine.environment import Environment
from holdfast._engine.store_defaults import has_audit

MOST_IDS: Final = 100
"""The ids that a selector names; of more it has the number of the rest."""


class Acting(Struct, frozen=True, kw_only=True):
    """The person who acts. ``selector``, ``up_to``: in place of what the verb knows. ``operation``: all verbs of one are one action."""

    who: str = "app"
    origin: str = "app"
    reason: str | None = None
    selector: str | None = None
    up_to: str | None = None
    operation: UUID | None = None


_APP: Final = Acting()
_ACTING: Final = ContextVar[Acting | None]("holdfast_acting", default=None)


@contextmanager
def acting(who: Acting) -> Iterator[None]:
    """Let all verbs within be recorded as those of this person; the async context, and threads that get a copy of it, have it too."""
    before = _ACTING.set(who)
    try:
        yield
    finally:
        _ACTING.reset(before)


def current() -> Acting:
    """Return who acts now."""
    return _ACTING.get() or _APP


def new_note(environment: Environment, action: str, target: Mapping[str, Any]) -> AuditNote | None:
    """Return the action to record with a verb, or ``None`` if the store remembers none."""
    if not has_audit(environment.store):
        return None
    now, chance = current(), environment.chance
    return AuditNote(
        id=now.operation or chance.uuid7(),
        write=chance.uuid4(),
        who=now.who,
        origin=now.origin,
        action=action,
        selector=now.selector or json_text(target),
        up_to=now.up_to,
        reason=now.reason,
    )


def named(ids: Sequence[UUID]) -> dict[str, Any]:
    """Return jobs as a target."""
    more = len(ids) - MOST_IDS
    return {"ids": [*ids[:MOST_IDS]]} | ({"more": more} if more > 0 else {})
