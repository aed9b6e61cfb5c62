"""Listeners to the engine's events in simulated processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._engine.events import EventName, Events
from proof.checker.history import IN_CARE, ROWS
from proof.simulator.call_outcomes import ODD, ODD_ERRORS
from proof.simulator.loop import Process
from proof.simulator.watched_table import VERBS
from proof.stores.broker_calls import BROKER
from proof.stores.bucket_connection import BUCKET

if TYPE_CHECKING:
    from proof.simulator.world import World

_ODD_NAMES = [each.__name__ for each in ODD_ERRORS]
_UNAVAILABLE = ("StoreUnavailable", "BucketUnavailable", "Refused", "Misdirected")
FAILURES = (EventName.STORE_UNAVAILABLE, EventName.STORE_REFUSED, EventName.SUBSCRIBER_FAILED)


class Ears(Events):
    """Events that log nothing, and record when a loop of the engine goes on after an error that the store did not cause."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__()
        self._world = world
        self._process = process

    def emit(self, name: EventName, **fields: object) -> None:
        """Complain about the engine's own errors, and record when a worker is ready."""
        if name is EventName.WORKER_READY:
            self._world.write("worker.ready", self._process.name, IN_CARE if self._process.name in self._world.core else "")
        if name is EventName.WORKER_DRAINING and "worker" in fields:
            self._world.write("worker.draining", str(fields["worker"]), str(fields["reason"]))
        operation, error = fields.get("operation"), str(fields.get("error", ""))
        is_expected = (
            error.startswith((*_UNAVAILABLE, BUCKET, "TimeoutError", f"{operation}: "))
            or ODD in error
            or BROKER in error
            or error in _ODD_NAMES
        )
        is_expected = is_expected or error.partition(": ")[2].startswith(
            ("/", "postgresql://")
        )  # real stores, with a query's name
        is_expected = is_expected or (str(operation).startswith(ROWS) and error.partition(": ")[0] in (*VERBS, "transaction"))
        if name in FAILURES and not is_expected:
            self._world.loop.complaints.append(f"{name}: {operation}: {error}")
