"""The events of a store that its store object has noticed, emitted by the process that renews leases in it."""

from holdfast._core.store_notices import ClockCorrected, Crowded, DamagedObject
from holdfast._engine.events import EventName, Events
from holdfast._engine.store_defaults import take_notices
from holdfast._ports.store import Store


def report_store(store: Store, events: Events) -> None:
    """Emit an event for each notice of the store since the last call."""
    for notice in take_notices(store):
        match notice:
            case Crowded(limit, used, most):
                events.emit(EventName.STORE_CROWDED, limit=limit, used=used, most=most)
            case DamagedObject(key, problem):
                events.emit(EventName.STORE_DAMAGED, key=key, problem=problem)
            case ClockCorrected(seconds):
                events.emit(EventName.STORE_CLOCK_STEPPED, correction=seconds)
