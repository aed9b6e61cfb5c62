"""What a store object has noticed about its store, beside its answers: the facts behind events of the store."""

from msgspec import Struct


class Crowded(Struct, frozen=True):
    """The store is near a limit. ``used`` and ``most``: of what it limits."""

    limit: str
    used: int
    most: int


class DamagedObject(Struct, frozen=True):
    """An object of the store is missing or cannot be read."""

    key: str
    problem: str


class ClockCorrected(Struct, frozen=True):
    """The store's clock is ``seconds`` ahead of this machine's, as it was not before; 0: they agree again."""

    seconds: float


StoreNotice = Crowded | DamagedObject | ClockCorrected
