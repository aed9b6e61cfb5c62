"""Records an operator's action in the transaction of a write that belongs to it."""

from collections.abc import Callable
from typing import TypeVar

from holdfast._core.audit import AuditNote
from holdfast._core.text import storable_text
from holdfast.stores.sqlite.database import StoreDatabase

Answer = TypeVar("Answer")


def audited(
    database: StoreDatabase, by: AuditNote | None, name: str, act: Callable[[], Answer], count: Callable[[Answer], int | None]
) -> Answer:
    """Write, and record the action that the write belongs to, if it is one; not if its count is ``None``."""
    if by is None:
        return act()
    note = by

    def write() -> Answer:
        answer = act()
        if (changed := count(answer)) is not None:
            record_action(database, note, changed)
        return answer

    return database.atomically(name, write)


def record_action(database: StoreDatabase, by: AuditNote, changed: int) -> None:
    """Record a write of an action in the open transaction."""
    texts = {name: storable_text(getattr(by, name)) for name in ("who", "origin", "action", "selector", "up_to", "reason")}
    database.write("audit", id=by.id.bytes, write=by.write.bytes, changed=changed, **texts)
