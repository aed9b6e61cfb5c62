"""Queues that a worker is to serve although there is no sign of them: often a misspelt name."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches


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
