"""What a worker logs about the SQLite library, when it is the first one on a file."""

from collections.abc import Mapping

from holdfast.stores.sqlite.checks import notices
from holdfast.stores.sqlite.database import StoreDatabase


class LibraryNotice:
    """The notice about an old library. Later workers do not repeat it; ``holdfast check`` does."""

    def __init__(self, version: tuple[int, ...]) -> None:
        self.lines: tuple[str, ...] = ()
        self._unlogged = notices(version)

    def open_lease(self, values: Mapping[str, object], database: StoreDatabase) -> bool:
        """Open a lease; before the first one of this process, find out whether the file has had a worker."""
        if self._unlogged and not database.read("has_leases"):
            self.lines = self._unlogged
        self._unlogged = ()
        return bool(database.write("open_lease", **values))
