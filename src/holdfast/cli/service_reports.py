"""What ``holdfast worker`` reports to systemd: that its workers have started, that it lives, and that it drains."""

from typing import TYPE_CHECKING

from holdfast._engine.events import Event, EventName, Events

if TYPE_CHECKING:
    from holdfast._ports.clock import Clock
    from holdfast._system.service_manager import ServiceManager


class ServiceReports:
    """Reports of one supervisor. ``restarts``: a drain is not its end, because its workers start again after a change of the code."""

    def __init__(self, manager: "ServiceManager", processes: int, *, restarts: bool = False) -> None:
        self._manager, self._waits_for, self._restarts = manager, processes, restarts

    def listen(self, events: Events) -> None:
        """Report ``READY=1`` once each worker has had a lease, and ``STOPPING=1`` at the drain of all."""
        events.on(EventName.LEASE_OPENED, self._lease_opened)
        events.on(EventName.WORKER_DRAINING, self._draining)

    async def keep_alive(self, clock: "Clock") -> None:
        """Report ``WATCHDOG=1`` from the supervisor's event loop until cancelled: a loop that hangs reports nothing.

        An outage of the store does not silence it. A restart would help nothing, and would cost the jobs that run.
        """
        while self._manager.pause is not None:
            self._manager.notify("WATCHDOG=1")
            await clock.sleep(self._manager.pause)

    def _lease_opened(self, _: Event) -> None:
        self._waits_for -= 1
        if self._waits_for == 0:
            self._manager.notify("READY=1", "STATUS=workers run")

    def _draining(self, event: Event) -> None:
        if "workers" in event.fields and not self._restarts:  # with the field `worker` it is one of them
            self._manager.notify("STOPPING=1", "STATUS=running jobs end")
