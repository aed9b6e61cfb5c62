"""What every part of the engine works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast._engine.events import Events
    from holdfast._ports.clock import Clock, Randomness
    from holdfast._ports.store import Store
    from holdfast._ports.transport import Transport


class Environment(Struct, frozen=True):
    """An open store and its transport, the machine's clocks and randomness, and where events go."""

    store: Store
    transport: Transport
    clock: Clock
    chance: Randomness
    events: Events

    @property
    def lease_time(self) -> Callable[[], float]:
        """The clock of this machine that measures the store's leases: it stops in a suspend only if the store's clock does too."""
        is_kernel = self.store.capabilities.lease_clock == "kernel"
        return self.clock.monotonic if is_kernel else self.clock.boottime
