"""The verbs of stores that consist of objects in a bucket."""

from holdfast._ports.store import Store
from holdfast._ports.upkeep import HasObjects
from holdfast.errors import Unsupported

_REMEDIES = {
    "sqlite": "it is a file: `holdfast backup copy.db` copies it, `holdfast check` reads it, and SQLite's VACUUM shrinks it",
    "postgres": "use pg_dump or the base backups of your server, and `holdfast check`",
    "memory": "it ends with its process, and keeps nothing to look after",
    "broker": "run the command with the URL of the store behind the broker",
}


def objects_of(store: Store) -> HasObjects:
    """Return the verbs of a store in a bucket. ``Unsupported``, with what to use instead, for another store."""
    if isinstance(store, HasObjects):
        return store
    name = store.capabilities.name
    remedy = _REMEDIES.get(name, "use the tools of its server")
    raise Unsupported(f"`holdfast store` is for stores in a bucket (s3://, gs://, az://), and this is a {name} store: {remedy}")
