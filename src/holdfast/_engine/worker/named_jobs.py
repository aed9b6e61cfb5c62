"""The jobs that hints name, for a worker that rests: the store has answered that nothing is due."""

from collections.abc import Collection, Mapping
from itertools import islice
from uuid import UUID

from holdfast._ports.transport import Hint


class NamedJobs:
    """What a resting worker claims, instead of looking at all lanes.

    On PostgreSQL a claim of named jobs takes 0.75 ms of CPU, and one that looks at all lanes 1.8 ms, with or without a settle. A rest
    ends when a hint names no jobs, when the worker can run other tasks than it asked for, and when its time is over. So a lost or
    wrong hint costs no more than with a worker that claims at each hint.
    """

    def __init__(self) -> None:
        self._jobs: dict[UUID, None] = {}
        self._tasks: Collection[str] = ()
        self._until = float("-inf")
        self._is_called = False

    def hinted(self, hint: Hint) -> None:
        """Keep the due jobs of a hint; a hint that names none asks for a look at all lanes."""
        if hint.queue and hint.ids:
            self._jobs.update(dict.fromkeys(hint.ids))
        else:
            self._is_called = True

    def rest(self, tasks: Collection[str], until: float) -> None:
        """Rest until then: no job of these tasks was due when the store answered."""
        self._tasks, self._until = frozenset(tasks), until

    def look(self) -> None:
        """End the rest: the next claim looks at all lanes, and so at the jobs that were named before it."""
        self._jobs.clear()
        self._until, self._is_called = float("-inf"), False

    def next(self, tasks: Mapping[str, object], most: int, now: float) -> tuple[UUID, ...] | None:
        """Return the jobs to claim, empty if none is named; ``None``: end the rest and look at all lanes."""
        if self._is_called or now >= self._until or tasks.keys() != self._tasks:
            self.look()
            return None
        jobs = tuple(islice(self._jobs, most))
        for job in jobs:
            del self._jobs[job]
        return jobs
