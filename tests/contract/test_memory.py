"""The memory store keeps the contract."""

from holdfast._ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.testing.clock import FakeClock
from holdfast.testing.contract import StoreContract


class TestMemory(StoreContract):
    """Every handle is the one store."""

    store: MemoryStore | None = None

    def make_store(self, clock: FakeClock) -> Store:
        self.store = self.store or MemoryStore(clock)
        return self.store
