"""The optional port to a store object that notices more about its store than its answers show."""

from typing import Protocol

from holdfast._core.store_notices import StoreNotice


class HasNotices(Protocol):
    """The memory of a store object about its store. It asks no store."""

    def take_notices(self) -> tuple[StoreNotice, ...]:
        """Return, each once, what calls of this object have shown since the last call: a limit, damage, a clock that differs."""
        ...
