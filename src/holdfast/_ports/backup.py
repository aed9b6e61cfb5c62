"""Stores that copy themselves."""

from typing import Protocol, runtime_checkable

from msgspec import Struct


class Backup(Struct, frozen=True):
    """A copy that was made. ``size``: in bytes."""

    path: str
    jobs: int
    size: int


@runtime_checkable
class HasBackup(Protocol):
    """A store that is a file."""

    async def backup(self, target: str) -> Backup:
        """Copy the store as it is at one moment, verify the copy, and put it at a path where there is no file yet.

        ``ConfigurationError`` if there is one, or no store to copy; ``StoreUnavailable`` if the copy is not sound."""
        ...
