"""The events of workflows that end or pause, emitted by the process whose write did it."""

from holdfast._core.job import State
from holdfast._engine.events import EventName, Events
from holdfast._engine.store_defaults import take_flow_changes
from holdfast._ports.store import Store

_EVENT_OF = {
    State.COMPLETED: EventName.WORKFLOW_COMPLETED,
    State.FAILED: EventName.WORKFLOW_FAILED,
    State.CANCELLED: EventName.WORKFLOW_CANCELLED,
    State.HELD: EventName.WORKFLOW_PAUSED,
}


def report_flows(store: Store, events: Events) -> None:
    """Emit an event for each workflow that the writes of this process have ended or paused since the last call."""
    for change in take_flow_changes(store):
        events.emit(_EVENT_OF[change.state], workflow=change.flow, reason=change.reason)
