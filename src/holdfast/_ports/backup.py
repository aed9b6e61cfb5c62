"""The port to stores that can copy themselves."""

from typing import Protocol, runtime_checkable

from msgspec import Struct


class Backup(Struct, frozen=True):
    """A finished copy of a store. ``size``: in bytes."""

    path: str
    jobs: int
    size: int


@runtime_checkable
class HasBackup(Protocol):
    """A store that is a file."""

    async def backup(self, target: str) -> Backup:
        """Copy the store as it is at one moment, verify the copy, and put it at a path where there is no file yet.

        Raises ``ConfigurationError`` if the path has a file or there is no store to copy. Raises ``StoreUnavailable`` if the
        copy fails its verification."""
        ...
