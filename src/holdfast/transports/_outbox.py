"""Hints that wait to be sent, and the one message in which they leave together."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from holdfast._ports.transport import MOST_DUE, Hint

INTERVAL, LONGEST_INTERVAL = 0.005, 0.02
"""Seconds between two messages of one event loop. The first after a pause goes at once. While jobs keep coming, all workers
are busy anyway, and messages become less frequent."""
LONGEST = 7_900
"""Bytes of a message: NOTIFY takes 7,999."""
MOST_NAMES, MOST_IDS = 1_000, 1_000

encode = msgspec.json.Encoder().encode


class Notification(Struct, omit_defaults=True):
    """The content of one message.

    ``due``: of some of these queues, the only jobs that they are named for. ``is_for_all``: it wakes every worker, because not all hints
    fit, or because a hint names neither a queue nor a job.
    """

    queues: list[str] = []
    ids: list[UUID] = []
    is_for_all: bool = False
    due: list[tuple[str, list[UUID]]] = []

    def hints(self) -> list[Hint]:
        """Return the hints to deliver: one for each queue, one for all jobs, and one for every worker if needed."""
        due = dict(self.due)
        found = [Hint(queue, tuple(due.get(queue, ()))) for queue in self.queues]
        found += [Hint(ids=tuple(self.ids))] if self.ids else []
        return found + ([Hint()] if self.is_for_all else [])


class Outbox:
    """Hints that have not been sent yet, each queue and job once."""

    def __init__(self) -> None:
        self.is_filled = asyncio.Event()
        self._queues: dict[str, list[UUID] | None] = {}  # the due jobs; None: any jobs
        self._ids: dict[UUID, None] = {}
        self._is_for_all = False

    def add(self, hints: Sequence[Hint]) -> None:
        """Add hints to the next message."""
        for hint in hints:
            if hint.queue and (not hint.ids or not hint.rescued):
                known = self._queues.get(hint.queue, []) if hint.ids else None
                is_short = known is not None and len(known) + len(hint.ids) <= MOST_DUE
                self._queues[hint.queue] = [*known, *hint.ids] if known is not None and is_short else None
            else:
                self._ids.update(dict.fromkeys(hint.ids))
                self._queues.update({hint.queue: None} if hint.queue else {})
                self._is_for_all = self._is_for_all or not (hint.ids or hint.queue)
        if len(self._queues) > MOST_NAMES or len(self._ids) > MOST_IDS:
            self._queues, self._ids, self._is_for_all = {}, {}, True
        self.is_filled.set()

    def take(self) -> Notification:
        """Remove and return all hints, as one message. If they do not fit, drop due jobs, then ids, then queues, and wake every worker."""
        due = [(queue, ids) for queue, ids in self._queues.items() if ids]
        notification = Notification(list(self._queues), list(self._ids), self._is_for_all, due)
        self._queues, self._ids, self._is_for_all = {}, {}, False
        self.is_filled.clear()
        while len(encode(notification)) > LONGEST:
            # A worker whose job changed learns it with its next beat anyway; a queue without its own hint would wait for the next poll.
            if notification.due:
                notification = structs.replace(notification, due=[])
            elif notification.ids:
                notification = Notification(notification.queues, notification.ids[: len(notification.ids) // 2], True)
            else:
                notification = Notification(is_for_all=True)
        return notification
