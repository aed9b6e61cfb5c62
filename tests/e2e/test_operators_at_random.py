"""Operators who cancel, retry, pause, reschedule and delete at random while jobs run and workers are killed."""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from holdfast._core.job import PLACE_OF, Place, State
from holdfast.testing.checker import Rules, check
from holdfast.testing.history import Event, History, Phase
from tests.e2e.fleet import fleet
from tests.e2e.machines import HERE
from tests.e2e.tormentor import SEED, Tormentor
from tests.e2e.waiting import until

JOBS = int(os.environ.get("E2E_OPERATED_JOBS", "500"))
ROUNDS = int(os.environ.get("E2E_OPERATED_ROUNDS", "6"))
DELETABLE = 0.2
"""The part of jobs that may vanish; all others were promised to stay."""


class Operator:
    """Does what an operator may do, to jobs that do not wait for it."""

    def __init__(self, tormentor: Tormentor, chance: random.Random) -> None:
        self._app, self._chance = tormentor.app, chance
        self.retried: set[UUID] = set()
        self.deleted: set[UUID] = set()

    def meddle(self, kept: Sequence[UUID], deletable: Sequence[UUID]) -> None:
        """One of everything, each to some jobs in whatever state they are."""
        jobs = self._app.jobs
        jobs.cancel(self._some(kept, 8))
        retried = self._some(kept, 8)
        self.retried.update(retried)
        jobs.retry(retried)
        jobs.reschedule(self._some(kept, 8), delay=self._chance.uniform(0.0, 0.5))
        doomed = self._some(deletable, 8)
        self.deleted.update(set(doomed) - jobs.delete(doomed).keys())
        if self._chance.random() < 0.5:
            self._app.queues.pause("default")
        else:
            self._app.queues.resume("default")

    def _some(self, jobs: Sequence[UUID], many: int) -> list[UUID]:
        return self._chance.sample(jobs, min(many, len(jobs)))


@pytest.mark.timeout(180)
def test_s4_every_job_ends_whatever_operators_do_to_it_while_its_workers_are_killed(tmp_path: Path, store_url: str) -> None:
    chance = random.Random(SEED)
    with fleet(tmp_path, url=store_url, ttl="3s", recovery="0.3s") as ships:
        tormentor = Tormentor(ships, chance, [HERE, HERE])
        operator = Operator(tormentor, chance)
        kept, deletable = [], []
        for cycle in range(ROUNDS):
            few = round(JOBS / ROUNDS * DELETABLE)
            kept += tormentor.enqueue(JOBS // ROUNDS - few, longest=0.3)
            deletable += [ships.enqueue("labour", seconds=0.1) for _ in range(few)]
            tormentor.pause(0.2)
            operator.meddle(kept, deletable)
            if cycle % 2:
                tormentor.kill_somebody()
        ships.app.queues.resume("default")
        until(lambda: not _unfinished(tormentor), within=60)
        history = History()
        for job in operator.retried:
            history.add(Event(time=0.0, process="operator", what="reopen", phase=Phase.INVOKE, job=job))
        for event in tormentor.record.read(tormentor.deeds):
            if event.job not in operator.deleted:
                history.add(event)
        report = check(history, Rules())
        print(f"{len(history)} events, {report.starts} starts of {JOBS} jobs, {len(operator.deleted)} deleted")
        assert not report.violations, report.explain(history)
        assert operator.deleted
        assert min(report.checked[name] for name in ("S1", "S2", "S3", "S5", "S6", "S8", "S9", "L2")) > 0
        outcomes = ships.app.jobs.counts()
        assert min(outcomes["completed"], outcomes["cancelled"]) > 0
        assert outcomes["failed"] == 0


def _unfinished(tormentor: Tormentor) -> int:
    counts = tormentor.app.jobs.counts()
    return sum(many for state, many in counts.items() if PLACE_OF[State(state)] is not Place.FINISHED)
