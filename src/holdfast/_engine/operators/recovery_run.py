"""One recovery by hand: what `holdfast recover` does."""

from collections.abc import Sequence

from holdfast._core.identity import rescuer_name
from holdfast._core.view import Rescued
from holdfast._engine.client.client import Client
from holdfast._engine.client.connections import Connections
from holdfast._engine.environment import Environment
from holdfast._engine.events import Events
from holdfast._engine.store_defaults import has_workflows
from holdfast._engine.supervisor.recovery import EXPIRED_PER_STEP, Contact, Recovery
from holdfast._ports.host import Host
from holdfast.settings import RecoverySwitches, Settings


async def recover(
    connections: Connections, settings: Settings, events: Events, host: Host, switches: RecoverySwitches, *, now: bool
) -> Sequence[Rescued]:
    """Rescue the jobs of workers that lost their right to them. ``now``: do not watch the store first."""
    clock = connections.clock
    environment = Environment(connections.store, connections.transport, clock, connections.chance, events)
    contact = Contact(settings.timing, environment.lease_time)
    sees, by = None if settings.reconcile == "off" else host, rescuer_name("command", host.process())
    recovery = Recovery(environment, contact, switches=switches, host=sees, by=by)
    rescued = [*await recovery.reconcile(), *await recovery.step(skip_amnesty=now)]
    while await recovery.expire() >= EXPIRED_PER_STEP:
        pass
    if switches.workflows and has_workflows(environment.store):
        await Client(environment).revive()
    while not now and recovery.pause < float("inf"):
        await clock.sleep(recovery.pause / 2)
        rescued += await recovery.step()
    return rescued
