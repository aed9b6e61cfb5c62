"""Writes of progress and checkpoints to the store: coalesced, many jobs in one write, fenced by their tokens."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any
from uuid import UUID

from msgspec import structs

from holdfast._core.job import ActiveJob, Token
from holdfast._core.points import Track, points_text
from holdfast._core.requests import ProgressUpdate
from holdfast._engine import store_defaults
from holdfast._engine.progress import report
from holdfast._engine.service import Signal
from holdfast._engine.worker.attempt_calls import AttemptCalls
from holdfast._engine.worker.attempt_reports import AttemptReporter
from holdfast._engine.worker.child_jobs import ChildJobs
from holdfast._engine.worker.step_records import StepRecords
from holdfast._ports.store import Store
from holdfast.errors import JobLost

PROGRESS_INTERVAL = 1.0
URGENT_INTERVAL = 0.1
"""The seconds between two writes at least, also of what is written at once."""
Key = tuple[UUID, Token]


class ProgressWriter:
    """The writer of what handlers report; ``step()`` writes it under the tokens."""

    def __init__(
        self,
        store: Store,
        reports: AttemptReporter,
        calls: AttemptCalls,
        children: ChildJobs,
        steps: StepRecords,
        *,
        now: Callable[[], float],
        idle: float = 5.0,
        every: float = PROGRESS_INTERVAL,
    ) -> None:
        self._calls, self.children, self.steps = calls, children, steps
        self._store, self._idle, self._every = store, idle, every
        self._now = now
        self._reports = reports
        self.wake = Signal()
        """Set when there is something to write."""
        self.begun_at: Callable[[UUID], float | None] = dict[UUID, float]().get
        """When the code of a job began; ``None``: it has only just begun."""
        self._tracks: dict[UUID, tuple[Token, Track]] = {}
        self._final_updates: dict[UUID, ProgressUpdate] = {}
        self._updates: dict[UUID, ProgressUpdate] = {}
        self._waiters: dict[UUID, list[asyncio.Future[None]]] = {}
        self._written = float("-inf")
        self._is_urgent = False
        self._order = 0
        self._locked: frozenset[UUID] = frozenset()  # at the last write; a checkpoint of these jobs waits for the next interval

    def progress(self, job: ActiveJob, *, stage: str | None, fraction: float | None, message: str | None) -> None:
        """Keep the latest progress. ``step`` writes the first one and a change of the stage at once, and others at intervals."""
        self._reports.moved(job)
        is_urgent = self._track(job, stage, fraction, message)
        self._is_urgent |= is_urgent
        is_first = not self._updates
        self._add(ProgressUpdate(job=job.id, token=job.token, stage=stage, fraction=fraction, message=message))
        if is_first or is_urgent:
            self.wake.set()

    async def checkpoint(self, job: ActiveJob, data: bytes) -> None:
        """Return once the checkpoint is durable; raise ``JobLost`` if the job has another owner."""
        done = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(job.id, []).append(done)
        self._add(ProgressUpdate(job=job.id, token=job.token, checkpoint=data))
        self.wake.set()
        with self._reports.waiting_for_store(job):
            await done

    def transaction(self, job: ActiveJob, within: Any = None) -> AbstractAsyncContextManager[Any]:
        """Open a transaction for the user's rows and the check of the job's token; it is rolled back after ``idle`` seconds."""
        return store_defaults.transaction(self._store, job.id, job.token, idle=self._idle, within=within)

    def blocking_transaction(self, job: ActiveJob, within: Any = None) -> AbstractContextManager[Any]:
        """Open the same transaction for code outside of an event loop."""
        return store_defaults.blocking_transaction(self._store, job.id, job.token, idle=self._idle, within=within)

    def forget(self, job: ActiveJob) -> None:
        """Set aside the last update of a handler that has ended: it is written before the handler's outcome, or never."""
        if self._updates:  # most jobs report nothing, and each lookup costs the hash of a UUID
            update = self._updates.get(job.id)
            if update is not None and update.token == job.token:
                self._final_updates[job.id] = self._with_points(self._updates.pop(job.id))
        if self._tracks:
            self._tracks.pop(job.id, None)
        if self._waiters or self._calls.waiting:
            self.interrupt(job)

    async def write_final_updates(self) -> None:
        """Write the last updates of ended handlers, in one try: an outcome must not wait for the progress of its job."""
        if self._final_updates:
            updates, self._final_updates = tuple(self._final_updates.values()), {}
            try:
                await self._store.report(updates)
            except Exception:
                return  # the outcome follows at once, meets the same error and reports it

    def interrupt(self, job: ActiveJob, *, is_lost: bool = False) -> None:
        """End the waits of a handler that must stop: a checkpoint must not hold it up while the store does not answer."""
        self._calls.interrupt(job)
        if waiting := self._waiters.pop(job.id, None):
            _answer(waiting, _lost_error(job.id) if is_lost else asyncio.CancelledError())

    async def step(self) -> tuple[list[Key], float]:
        """Write all updates. Return the attempts whose jobs have another owner, and the seconds until the next step."""
        if not self._updates:
            return [], self._every * 60
        due = self._written + (URGENT_INTERVAL if self._is_urgent else self._every) - self._now()
        if due > 0 and not self._waiters.keys() - self._locked:
            return [], due
        self._updates = {job: self._with_points(update) for job, update in self._updates.items()}
        updates = tuple(self._updates.values())
        waiters = {job: tuple(waiting) for job, waiting in self._waiters.items()}
        was_urgent, self._is_urgent = self._is_urgent, False
        try:
            lost, locked = await report(self._store, updates)
        except BaseException:
            # Its effect is unknown and all updates stay: an update may land twice without harm, and the newer wins.
            self._is_urgent |= was_urgent
            raise
        self._written, self._locked = self._now(), locked
        for update in updates:
            if update.job not in locked and self._updates.get(update.job) is update:
                del self._updates[update.job]
        for job, waiting in waiters.items():
            if job not in locked:
                _answer(waiting, _lost_error(job) if job in lost else None)
        self._waiters = {job: left for job, each in self._waiters.items() if (left := [one for one in each if not one.done()])}
        attempts = [(update.job, update.token) for update in updates if update.job in lost]
        return attempts, self._every if self._updates else self._every * 60

    def _track(self, job: ActiveJob, stage: str | None, fraction: float | None, message: str | None) -> bool:
        """Note the progress; return whether it is the first of its attempt, or has another stage."""
        token, track = self._tracks.get(job.id, (job.token, _NOTHING_YET))
        track = track if token == job.token else _NOTHING_YET
        now, begun = self._now(), self.begun_at(job.id)
        seconds = 0.0 if begun is None else now - begun
        after = track.after(seconds, stage=stage, fraction=fraction, message=message)
        self._tracks[job.id] = job.token, after
        return track is _NOTHING_YET or after.last.stage != track.last.stage

    def _with_points(self, update: ProgressUpdate) -> ProgressUpdate:
        token, track = self._tracks.get(update.job, (None, _NOTHING_YET))
        return structs.replace(update, points=points_text(track)) if token == update.token else update

    def _add(self, update: ProgressUpdate) -> None:
        self._order += 1
        older = self._updates.get(update.job)
        if older is not None and older.token == update.token:
            news = {name: getattr(update, name) for name in ("stage", "fraction", "message", "checkpoint")}
            update = structs.replace(older, **{name: value for name, value in news.items() if value is not None})
        self._updates[update.job] = structs.replace(update, order=self._order)


_NOTHING_YET = Track()


def _lost_error(job: UUID) -> JobLost:
    return JobLost(f"job {job} was taken from this attempt")


def _answer(waiting: Iterable[asyncio.Future[None]], error: BaseException | None) -> None:
    for future in waiting:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
