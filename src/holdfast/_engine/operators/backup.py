"""A copy of the whole store, for stores that are a file."""

import os

from holdfast._ports.backup import Backup, HasBackup
from holdfast._ports.store import Store
from holdfast.errors import Unsupported

_REMEDIES = {
    "postgres": "use pg_dump, or the base backups of your server",
    "objects": "use `holdfast store backup PLACE`, which copies objects to another prefix or to a folder",
    "broker": "run the command with the URL of the store behind the broker",
    "memory": "it ends with its process; use a SQLite file to keep jobs",
}


async def backup(store: Store, target: str | os.PathLike[str]) -> Backup:
    """Copy the store to a new file. ``Unsupported`` if the store is not a file."""
    if isinstance(store, HasBackup):
        return await store.backup(os.fspath(target))
    name = store.capabilities.name
    raise Unsupported(f"the {name} store is not a file that can be copied: {_REMEDIES.get(name, 'use the backup of its server')}")
