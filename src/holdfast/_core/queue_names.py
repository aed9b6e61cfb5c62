"""Queues that workers serve although there is no sign of them, or that no worker serves although jobs wait: often a misspelt name."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from holdfast._core.answers import LeaseView, QueueView
from holdfast._core.job import State


def unseen(served: Iterable[str], known: Collection[str]) -> dict[str, str | None]:
    """Return the served queues that are not known, each with the known name that is most similar to it.

    >>> unseen(["mial", "reports", "video"], {"mail", "reports"})
    {'mial': 'mail', 'video': None}
    """
    return {name: next(iter(get_close_matches(name, sorted(known), 1)), None) for name in served if name not in known}


def sentence(queue: str, nearest: str | None) -> str:
    """Return what is reported of such a queue."""
    hint = "" if nearest is None else f"; did you mean {nearest}?"
    return f"queue {queue} has never had a job, and no task in the code names it{hint}"


def unserved(queues: Iterable[QueueView], live: Sequence[LeaseView]) -> list[QueueView]:
    """Return the queues in which due jobs wait and that none of the live workers serves; none without a live worker.

    A paused queue is left out: no worker could take its jobs. So is a queue whose jobs are all due later.
    """
    if not live:
        return []
    general = [worker for worker in live if not worker.is_isolated]
    waiting = [queue for queue in queues if queue.paused_at is None and queue.counts.get(State.AVAILABLE, 0)]
    return [queue for queue in waiting if not any(not each.queues or queue.name in each.queues for each in general)]
