"""Operators who cancel, retry, reschedule and delete at random, while jobs run and workers are killed."""

import random
from collections.abc import Callable, Sequence, Set
from uuid import UUID

from holdfast import App
from proof.checker.history import Event, History, Phase


class Operator:
    """Does what an operator may do, while the jobs run on. ``confirm`` gets each job that was reported as cancelled."""

    def __init__(self, app: App, chance: random.Random, confirm: Callable[[UUID], None] = lambda job: None) -> None:
        self._app, self._chance, self._confirm = app, chance, confirm
        self.retried: set[UUID] = set()
        self.deleted: set[UUID] = set()

    def meddle(self, kept: Sequence[UUID], deletable: Sequence[UUID], *, many: int = 8) -> None:
        """Run each operator command once, on some jobs in any state."""
        jobs = self._app.jobs
        cancelled = self._some(kept, many)
        jobs.cancel(cancelled)
        for job in cancelled:
            self._confirm(job)
        retried = self._some(kept, many)
        self.retried.update(retried)
        jobs.retry(retried)
        jobs.reschedule(self._some(kept, many), delay=self._chance.uniform(0.0, 0.5))
        doomed = {*self._some(deletable, many)} - self.deleted
        self.deleted |= doomed  # also if no answer comes
        self.deleted -= jobs.delete([*doomed]).keys()

    def pause_or_resume(self) -> None:
        """Pause or resume claiming."""
        if self._chance.random() < 0.5:
            self._app.queues.pause("default")
        else:
            self._app.queues.resume("default")

    def _some(self, jobs: Sequence[UUID], many: int) -> list[UUID]:
        return self._chance.sample(jobs, min(many, len(jobs)))


def amend(history: History, *, retried: Set[UUID], deleted: Set[UUID]) -> History:
    """Return the history with the operators' retries, and without the deleted jobs, which nothing promised to keep."""
    known = History(Event(time=0.0, process="operator", what="reopen", phase=Phase.INVOKE, job=job) for job in retried)
    for event in history:
        if event.job not in deleted:
            known.add(event)
    return known
