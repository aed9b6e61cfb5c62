"""The record of a queue's pause: its author and reason, as far as the audit knows them."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast._core.audit import AuditEntry


class _Paused(Struct):
    queues: Sequence[str] = ()

    @classmethod
    def of(cls, selector: str) -> "_Paused":
        """Return the queues in the selector of a pause; none if it was recorded in another form."""
        try:
            return msgspec.json.decode(selector, type=cls)
        except msgspec.MsgspecError:
            return cls()


def pause_of(queue: str, pauses: Sequence[AuditEntry]) -> AuditEntry | None:
    """Return the newest recorded pause of a queue. ``pauses``: newest first."""
    return next((each for each in pauses if queue in _Paused.of(each.selector).queues), None)


def paused_by(queue: str, pauses: Sequence[AuditEntry]) -> str:
    """Return who paused a queue and why, as far as it is recorded: empty, or ' by anna (a release)'."""
    if (found := pause_of(queue, pauses)) is None:
        return ""
    return f" by {found.who}" + (f" ({found.reason})" if found.reason else "")
