"""The closed list of events. Logs, metrics and traces subscribe here; a subscriber can never break the engine."""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast._core.text import printable
from holdfast.errors import HoldfastError, StoreBusy, StoreUnavailable

if TYPE_CHECKING:  # a program that only enqueues counts nothing
    from holdfast._core.tallies import Tallies

logger = logging.getLogger("holdfast")


class EventName(StrEnum):
    """``noun.past``, each with the fields that it carries in its comment."""

    JOB_ENQUEUED = "job.enqueued"  # job task queue
    JOB_CANCEL_REQUESTED = "job.cancel_requested"  # job state: ended if it waited, asked to end if it runs
    JOB_REOPENED = "job.reopened"  # job state
    JOB_RESCHEDULED = "job.rescheduled"  # job state
    JOB_DELETED = "job.deleted"  # job
    JOBS_CANCELLED = "jobs.cancelled"  # jobs refused: what one call with a selector did, beside the events of each job
    JOBS_RETRIED = "jobs.retried"  # jobs refused
    JOBS_RESCHEDULED = "jobs.rescheduled"  # jobs refused
    JOBS_DELETED = "jobs.deleted"  # jobs refused
    JOB_CLAIMED = "job.claimed"  # job task attempt worker via rescued recovery
    JOB_STARTED = "job.started"  # job task queue attempt worker waited: the first line of its handler is about to run
    JOB_RESCUE_HOOK_COMPLETED = "job.rescue_hook_completed"  # job task attempt worker reason: on_rescue committed
    JOB_RESCUE_HOOK_FAILED = "job.rescue_hook_failed"  # job task attempt worker reason error: on_rescue raised; it is still due
    JOB_COMPLETED = "job.completed"  # job task attempt worker
    JOB_RETRIED = "job.retried"  # job task attempt worker error delay
    JOB_SNOOZED = "job.snoozed"  # job task attempt worker delay
    JOB_HELD = "job.held"  # job task attempt worker error: its code was changed under its steps
    JOB_FAILED = "job.failed"  # job task attempt worker reason error
    JOB_CANCELLED = "job.cancelled"  # job task attempt worker reason
    JOB_RELEASED = "job.released"  # job task attempt worker
    JOB_RESCUED = "job.rescued"  # job task attempt worker reason to crashes fraction delay recovery
    JOB_DEADLINE_EXCEEDED = "job.deadline_exceeded"  # job worker reason: it stalled or passed its limit; its code has to stop
    JOB_EXPIRED = "job.expired"  # job task: no worker started it in time
    JOB_LOST = "job.lost"  # job task attempt worker reason: the store refused a zombie's write
    JOB_MISSING = "job.missing"  # job task attempt worker: an outcome was dropped, no trace of its job is left
    LEASE_OPENED = "lease.opened"  # lease worker
    LEASE_ENDED = "lease.ended"  # lease worker reason signal
    LEASE_LOST = "lease.lost"  # running: it learnt that it is a zombie
    LEASE_DEADLINE_PASSED = "lease.deadline_passed"  # running: past its deadline, code is being stopped
    WORKER_STARTED = "worker.started"  # worker
    WORKER_READY = "worker.ready"  # worker
    WORKER_ENDED = "worker.ended"  # worker exit
    WORKER_KILLED = "worker.killed"  # worker reason
    WORKER_DEGRADED = "worker.degraded"  # worker limitation: what this machine cannot promise
    WORKER_DRAINING = "worker.draining"  # workers is_forced worker reason: all of a supervisor, or one of them
    WORKER_DRAINED = "worker.drained"  # worker jobs left: the ids of those that its grace did not suffice for
    RECOVERY_COMPLETED = "recovery.completed"  # worker reason jobs by_reason by_task: what one worker lost; no worker: several
    RECOVERY_SKIPPED = "recovery.skipped"  # claimed running overrun workflows: how many were left alone, as they are switched off
    WORKFLOW_COMPLETED = "workflow.completed"  # workflow
    WORKFLOW_FAILED = "workflow.failed"  # workflow reason
    WORKFLOW_CANCELLED = "workflow.cancelled"  # workflow reason
    WORKFLOW_PAUSED = "workflow.paused"  # workflow reason: a node of on_failure="pause" failed; without a reason: by a call
    WORKFLOW_RESUMED = "workflow.resumed"  # workflow failed: what became of the failures that the pause held back
    WORKFLOW_REPAIRED = "workflow.repaired"  # workflow job node was is: it waited for other than the states of its parents allow
    WORKFLOW_TIMED_OUT = "workflow.timed_out"  # workflow: its deadline passed, and what had not finished is cancelled
    QUEUE_PAUSED = "queue.paused"  # queue
    QUEUE_RESUMED = "queue.resumed"  # queue
    QUEUE_PURGED = "queue.purged"  # queue jobs
    QUEUE_UNSEEN = "queue.unseen"  # queue nearest: workers serve it, and neither store nor code knows that name
    RUNNER_UNAVAILABLE = "runner.unavailable"  # error failures: a runner process could not be started
    RUNNER_CRASHED = "runner.crashed"  # job task exit: it ended by itself, and its job with it
    RUNNER_KILLED = "runner.killed"  # job task reason: its handler did not stop when cancelled
    STORE_UNAVAILABLE = "store.unavailable"  # operation error failures
    STORE_REFUSED = "store.refused"  # operation error failures job: the store is up; an operator has to act
    STORE_BUSY = "store.busy"  # operation error failures jobs: another session keeps a lock
    STORE_RECOVERED = "store.recovered"  # operation failures
    STORE_CLOCK_STEPPED = "store.clock_stepped"  # store_seconds local_seconds correction
    STORE_CROWDED = "store.crowded"  # limit used most: it is near a limit, beyond which it takes no new jobs
    STORE_DAMAGED = "store.damaged"  # key problem: an object of a store in a bucket is missing or cannot be read
    STORE_WARNED = "store.warned"  # warning: reported once, at start
    STORE_PRUNED = "store.pruned"  # jobs stubs receipts leases attempts beats
    TRANSPORT_REPUBLISHED = "transport.republished"  # jobs: published again, because no worker had come for them
    ROWS_RESET = "rows.reset"  # rows count failed oldest owner keys: taken from owners that had them for too long
    ROWS_LOST = "rows.lost"  # rows count keys job: they belonged to another owner when this batch wanted to finish them
    ROWS_KEPT = "rows.kept"  # rows keys error job: alone with its handler's error; taken back after stale_after, or failed
    ROWS_BATCH_SLOW = "rows.batch_slow"  # rows seconds stale_after job: a batch takes so long that it may be taken for stuck
    ROWS_UNREADABLE = "rows.unreadable"  # rows count keys: their stamps are of no form that can be compared; left alone
    ROWS_UNDONE = "rows.undone"  # rows count keys: a trigger or another program takes away the stamps they were given
    ROWS_REFUSED = "rows.refused"  # rows verb count keys error job: a constraint or trigger lets nothing change them
    ROWS_PRUNED = "rows.pruned"  # rows count
    SCHEDULE_FIRED = "schedule.fired"  # schedule tick job
    SCHEDULE_SKIPPED = "schedule.skipped"  # schedule tick: the job of an earlier tick has not finished
    SCHEDULE_MISSED = "schedule.missed"  # schedule ticks tick: the number of ticks that its catch_up left out
    SCHEDULE_FAILED = "schedule.failed"  # schedule error: its next tick cannot be computed or stored
    STEPS_UNUSED = "steps.unused"  # job task steps: recorded, and not asked for by the attempt that completed
    JOB_SIGNALLED = "job.signalled"  # job signal
    TASK_UNKNOWN = "task.unknown"  # task: its jobs wait, and no live worker, or no runner of one, knows it
    PAYLOAD_FIELDS_IGNORED = "payload.fields_ignored"  # job task fields
    SUBSCRIBER_FAILED = "subscriber.failed"  # event error


_LEVELS: dict[EventName, int] = {
    EventName.JOB_COMPLETED: logging.INFO,
    EventName.JOB_SNOOZED: logging.INFO,
    EventName.JOB_CANCELLED: logging.INFO,
    EventName.JOB_RETRIED: logging.WARNING,
    EventName.JOB_HELD: logging.ERROR,
    EventName.JOB_FAILED: logging.ERROR,
    EventName.JOB_RESCUED: logging.WARNING,
    EventName.JOB_DEADLINE_EXCEEDED: logging.WARNING,
    EventName.JOB_RESCUE_HOOK_FAILED: logging.ERROR,
    EventName.JOB_EXPIRED: logging.ERROR,
    EventName.ROWS_RESET: logging.WARNING,
    EventName.ROWS_LOST: logging.WARNING,
    EventName.ROWS_KEPT: logging.WARNING,
    EventName.ROWS_BATCH_SLOW: logging.WARNING,
    EventName.ROWS_UNREADABLE: logging.WARNING,
    EventName.ROWS_UNDONE: logging.WARNING,
    EventName.ROWS_REFUSED: logging.WARNING,
    EventName.SCHEDULE_SKIPPED: logging.INFO,
    EventName.SCHEDULE_MISSED: logging.WARNING,
    EventName.SCHEDULE_FAILED: logging.ERROR,
    EventName.STEPS_UNUSED: logging.WARNING,
    EventName.TASK_UNKNOWN: logging.WARNING,
    EventName.QUEUE_UNSEEN: logging.WARNING,
    EventName.JOB_LOST: logging.WARNING,
    EventName.JOB_MISSING: logging.WARNING,
    EventName.LEASE_LOST: logging.WARNING,
    EventName.LEASE_DEADLINE_PASSED: logging.WARNING,
    EventName.WORKER_KILLED: logging.WARNING,
    EventName.RUNNER_UNAVAILABLE: logging.ERROR,
    EventName.RUNNER_CRASHED: logging.WARNING,
    EventName.RUNNER_KILLED: logging.WARNING,
    EventName.STORE_UNAVAILABLE: logging.WARNING,
    EventName.STORE_REFUSED: logging.ERROR,
    EventName.STORE_BUSY: logging.WARNING,
    EventName.STORE_CLOCK_STEPPED: logging.WARNING,
    EventName.STORE_CROWDED: logging.WARNING,
    EventName.STORE_DAMAGED: logging.ERROR,
    EventName.SUBSCRIBER_FAILED: logging.ERROR,
    EventName.STORE_WARNED: logging.WARNING,
    EventName.WORKER_DEGRADED: logging.WARNING,
    EventName.RECOVERY_SKIPPED: logging.WARNING,
    EventName.WORKFLOW_FAILED: logging.ERROR,
    EventName.WORKFLOW_CANCELLED: logging.INFO,
    EventName.WORKFLOW_PAUSED: logging.INFO,
    EventName.WORKFLOW_RESUMED: logging.INFO,
    EventName.WORKFLOW_REPAIRED: logging.WARNING,
    EventName.WORKFLOW_TIMED_OUT: logging.ERROR,
    EventName.JOBS_CANCELLED: logging.INFO,
    EventName.JOBS_RETRIED: logging.INFO,
    EventName.JOBS_RESCHEDULED: logging.INFO,
    EventName.JOBS_DELETED: logging.INFO,
    EventName.QUEUE_PAUSED: logging.INFO,
    EventName.QUEUE_RESUMED: logging.INFO,
    EventName.QUEUE_PURGED: logging.INFO,
    EventName.LEASE_ENDED: logging.INFO,
    EventName.WORKER_STARTED: logging.INFO,
    EventName.WORKER_READY: logging.INFO,
    EventName.WORKER_ENDED: logging.INFO,
    EventName.WORKER_DRAINING: logging.INFO,
    EventName.WORKER_DRAINED: logging.INFO,
    EventName.STORE_RECOVERED: logging.INFO,
}


def level_of(name: EventName) -> int:
    """Return the level at which the log shows the event."""
    return _LEVELS.get(name, logging.DEBUG)


class Event(Struct, frozen=True):
    """Something that happened; ``fields`` never hold a payload, a result or a traceback."""

    name: EventName
    fields: dict[str, Any]


def failure_of_store(error: BaseException) -> EventName:
    """Return what a failed call of a store is: an outage, which ends by itself, a lock, which another session has to give up, or
    a refusal, which needs an operator."""
    if isinstance(error, StoreBusy):
        return EventName.STORE_BUSY
    is_answer = isinstance(error, HoldfastError) and not isinstance(error, StoreUnavailable)
    return EventName.STORE_REFUSED if is_answer else EventName.STORE_UNAVAILABLE


class Events:
    """Subscribers of one App."""

    def __init__(self) -> None:
        self._subscribers: dict[str, list[Callable[[Event], object]]] = defaultdict(list)
        self.tallies: Tallies | None = None
        """What counts for metrics; None if they are off."""

    def count_call(self, operation: str, seconds: float) -> None:
        """Count how long the store took to answer, if anything is counted."""
        if self.tallies is not None:
            self.tallies.observe("store_call_seconds", seconds, operation)

    def tallied(self) -> "Tallies":
        """Count from now on, and return the counts."""
        if self.tallies is None:
            from holdfast._core.tallies import Tallies

            self.tallies = Tallies(threading.Lock())
        return self.tallies

    def on(self, name: str, callback: Callable[[Event], object]) -> None:
        """Call ``callback`` for each event of that name (``"*"``: every one); ``ValueError`` for an unknown name."""
        if name != "*" and name not in set(EventName):
            raise ValueError(f"{name!r} is not an event; there are: {', '.join(sorted(EventName))}")
        self._subscribers[name].append(callback)

    def off(self, name: str, callback: Callable[[Event], object]) -> None:
        """Call ``callback`` no longer."""
        self._subscribers[name].remove(callback)

    def emit(self, name: EventName, **fields: Any) -> None:
        """Log the event and call its subscribers; format nothing if there is neither a log nor a subscriber for it."""
        self._emit(None, Event(name, fields))

    def emit_as(self, sentence: str, name: EventName, /, **fields: Any) -> None:
        """Emit the event; the log shows the sentence instead of the name and the fields."""
        self._emit(sentence, Event(name, fields))

    def has_listener(self, name: EventName) -> bool:
        """Return whether the event is logged or has subscribers: code that emits it for each of many jobs asks once."""
        return self.has_subscriber(name) or logger.isEnabledFor(level_of(name))

    def has_subscriber(self, name: EventName) -> bool:
        """Return whether a function is called for events of that name."""
        return bool(self._subscribers) and bool(self._subscribers.get(name) or self._subscribers.get("*"))

    @property
    def has_subscribers(self) -> bool:
        """Whether there is a subscriber of any event."""
        return bool(self._subscribers)

    def pass_on(self, event: Event) -> None:
        """Call the subscribers of an event that was emitted, and logged, elsewhere."""
        for callback in (*self._subscribers.get(event.name, ()), *self._subscribers.get("*", ())):
            self.deliver(callback, event)

    def _emit(self, sentence: str | None, event: Event) -> None:
        if logger.isEnabledFor(level_of(event.name)):
            self.deliver(partial(_log, sentence), event)
        if self.tallies is not None:
            self.tallies.event(event.name.value, event.fields)
        if self._subscribers:
            self.pass_on(event)

    def deliver(self, callback: Callable[[Event], object], event: Event) -> None:
        """Call that callback, and report what it raises as an event."""
        try:
            callback(event)
        except BaseException as error:  # a subscriber's SystemExit must not end the engine
            if event.name is not EventName.SUBSCRIBER_FAILED:
                self.emit(EventName.SUBSCRIBER_FAILED, event=event.name.value, error=type(error).__name__)


def _log(sentence: str | None, event: Event) -> None:
    text = f"{event.name.value} {_fields_of(event)}" if sentence is None else sentence
    extra = {"event": event.name.value, "fields": event.fields}
    # Names of exceptions and of a payload's fields may hold any characters, and logs are often the user's own.
    logger.log(level_of(event.name), "%s", printable(text), extra=extra)


def _fields_of(event: Event) -> str:
    shown = ((key, f"{value:.3f}" if isinstance(value, float) else value) for key, value in event.fields.items())
    return " ".join(f"{key}={value}" for key, value in shown if value is not None)
