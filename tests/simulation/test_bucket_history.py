"""The history that is read from the heads of a bucket: the same that its processes recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from proof.checker.history import Event, JobRow, LeaseRow
from proof.checker.history_objects import CommitLog, Replay, read_notes
from proof.simulator.profiles import Profile
from proof.simulator.simulation import simulate
from proof.stores.objects import BucketWorld

NARROW = {"due_in": 0.0, "expires_in": None, "is_known": True}
"""What the two histories measure at different times of a write, or only the world knows."""


def moves(events: Sequence[Event]) -> dict[UUID, tuple[Any, Any]]:
    """Return what one commit made of each job: its first row before, and its last row after."""
    made = dict[UUID, tuple[Any, Any]]()
    for event in events:
        if event.what == "job" and event.job is not None:
            first = made[event.job][0] if event.job in made else narrow(event.before)
            made[event.job] = first, narrow(event.after)
    return made


def narrow(row: object) -> object:
    return structs.replace(row, **NARROW) if isinstance(row, JobRow) else row


def leases(events: Sequence[Event]) -> list[tuple[UUID | None, float, bool, bool]]:
    """Return the renewals and ends of leases: how long past its time each was, whether it has ended, and whether a judge ended it."""
    return [
        (event.lease, round(event.after.overdue, 3), event.after.is_ended, event.by is not None and event.by.is_judged)
        for event in events
        if event.what == "lease" and isinstance(event.after, LeaseRow)
    ]


class Recorder:
    """Notes what lands in the bucket of a world, beside what the world itself records of it."""

    def __init__(self, path: Path) -> None:
        self._path, self._land = path, BucketWorld._land
        self._log: CommitLog | None = None
        self.recorded = list[list[Event]]()

    def land(self, world: BucketWorld, body: bytes, events: Sequence[Event]) -> None:
        first, self._log = len(world.history), self._log or CommitLog(self._path, world.now)
        self._land(world, body, events)
        self._log("jobs/head.json", body)
        self.recorded.append(world.history.events[first:])


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (2, 3))])
def test_the_heads_that_land_tell_what_their_writers_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    recorder, replay, jobs = Recorder(tmp_path / "commits"), Replay(), 0
    monkeypatch.setattr(BucketWorld, "_land", lambda world, *landed: recorder.land(world, *landed))
    monkeypatch.setattr("proof.simulator.broker_plan.SHARE", 0.0)  # a beat in the memory of a leader is in no head
    assert simulate(seed, profile=Profile.OBJECTS).is_clean
    notes = read_notes(tmp_path / "commits")
    assert len(notes) == len(recorder.recorded) > 50
    for each, truth in zip(notes, recorder.recorded, strict=True):
        found = list(replay.events([each]))
        assert moves(found) == moves(truth)
        assert leases(found) == leases(truth)
        jobs += len(moves(truth))
    assert jobs > 20
