"""An operator's action as parameters of ``audit.sql``."""

from typing import Any

from holdfast._core.audit import AuditNote
from holdfast._core.text import storable_text


def action(by: AuditNote, changed: int) -> tuple[Any, ...]:
    """Return the parameters for a write that belongs to an action."""
    texts = (storable_text(each) for each in (by.who, by.origin, by.action, by.selector, by.up_to, by.reason))
    return (by.id, by.write, *texts, changed)
