"""The port to stores that consist of objects in a bucket: what is in them, whether it is whole, and copies of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable
from uuid import UUID

from msgspec import Struct

from holdfast._ports.backup import Backup


class Inspection(Struct, frozen=True, kw_only=True):
    """What a store in a bucket consists of.

    ``store``: the id that its creation, or its restoration, gave it. ``version``: how often its head was written, the last time at
    ``written_at``. ``broker``: the URL of the broker that leads. ``epoch``: how often one has taken over. Of the head, ``tail_commits``
    are the newest writes, with ``tail_bytes`` of changes. ``run_bytes``: before compression. ``garbage``: the objects that the head has
    dropped, and that are deleted after a day. ``unnamed``: those below ``runs/`` that it neither names nor has dropped.
    ``finished``: jobs that are loaded by each process. ``archived``: finished jobs that are read only when a call names them.
    """

    url: str
    format: int
    needs: int
    store: UUID
    version: int
    epoch: int
    broker: str | None
    written_at: datetime | None
    head_bytes: int
    tail_commits: int
    tail_bytes: int
    runs: int
    run_bytes: int
    garbage: int
    unnamed: int
    stored_bytes: int
    rows: Mapping[str, int]
    unfinished: int
    finished: int
    archived: int


class Damage(Struct, frozen=True):
    """An object that is missing or cannot be read, or rows that do not fit together."""

    key: str
    problem: str
    remedy: str


class Verification(Struct, frozen=True, kw_only=True):
    """What a complete read of a store has found. ``objects``: how many the head names, itself included."""

    version: int | None
    objects: int
    rows: int
    jobs: int
    damage: tuple[Damage, ...] = ()


class Compaction(Struct, frozen=True, kw_only=True):
    """What a compaction has done. ``deleted``: objects that no head had named for a day; ``orphans``: those that no head ever named."""

    runs_before: int
    runs: int
    run_bytes: int
    deleted: int
    orphans: int


@runtime_checkable
class HasObjects(Protocol):
    """A store that consists of objects in a bucket."""

    async def inspect(self) -> Inspection:
        """Read what the store consists of. Nothing is written."""
        ...

    async def verify(self) -> Verification:
        """Read every object that the head names, decode every row, and compare all counts and indexes with the rows."""
        ...

    async def compact(self) -> Compaction:
        """Merge all runs and the newest changes into one run, and delete what no process can need any more."""
        ...

    async def back_up(self, place: str) -> Backup:
        """Copy the store as it is at one moment to another prefix, or to a folder. ``ConfigurationError``: there is something already."""
        ...

    async def restore(self, place: str, *, is_forced: bool = False) -> Backup:
        """Make the store of a copy, with a new id: processes that have the old one open stop.

        ``ConfigurationError``: there is a store already, and it is not ``is_forced``; or there is no copy at that place.
        """
        ...
