"""What a store has to tell the operator when workers start."""

from holdfast._core.text import printable
from holdfast._engine.events import EventName, Events, logger
from holdfast._ports.store import Store


class StoreWarnings:
    """Logs each warning and each notice of a store once; some stores have none before they have answered."""

    def __init__(self, events: Events) -> None:
        self._events, self._logged = events, set[str]()

    def log(self, store: Store) -> None:
        """Log what is new."""
        found = store.capabilities
        for warning in found.warnings:
            if warning not in self._logged:
                self._events.emit(EventName.STORE_WARNED, warning=warning)
        for notice in found.notices:
            if notice not in self._logged:
                logger.info("%s", printable(notice))
        self._logged |= {*found.warnings, *found.notices}
