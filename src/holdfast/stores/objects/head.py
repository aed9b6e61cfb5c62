"""The head of a store: the only object that is ever overwritten. It has the newest commits, and names the objects with all older ones."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from uuid import UUID

import msgspec
from msgspec import DecodeError, Raw, Struct, structs

from holdfast._core.book.table import RowChange
from holdfast._core.book.tables import decode

KEY = "head.json"
FORMAT = 1
RING = 64
"""The commits whose nonce a head names after they have left its tail."""
MOST_HEAD = 64 * 1024 * 1024
"""The most bytes of a head that are decoded."""


class Commit(Struct, frozen=True):
    """One write of the head. ``nonce``: by which its writer recognises it. ``changes``: those of each request."""

    version: int
    nonce: str
    at: datetime
    changes: tuple[Raw, ...]

    def rows(self) -> Iterator[RowChange]:
        """Return all changed rows, in order."""
        return chain.from_iterable(decode(each) for each in self.changes)


class Past(Struct, frozen=True, array_like=True):
    """A commit that has left the tail."""

    version: int
    nonce: str


class Dropped(Struct, frozen=True, array_like=True):
    """An object that no head names any more since a commit of that time. A process that has read an older head may still load it."""

    key: str
    at: datetime


class Run(Struct, frozen=True):
    """An object with the changes of the commits after version ``since`` up to ``until``. ``size``: its bytes before compression."""

    key: str
    since: int
    until: int
    size: int


class Leader(Struct, frozen=True):
    """The broker that leads. ``id``: of this start of its process. ``url``: where clients reach it."""

    id: UUID
    url: str
    release: str


class Head(Struct, frozen=True, kw_only=True):
    """The content of a head. ``needs``: the least format that a release must know to read it. ``store``: the id that its creation gave it.
    ``epoch``: grows with each takeover. ``broker``: while it is set, no other process writes or judges. ``runs``: from the oldest on.
    ``tail``: the commits after them."""

    format: int
    needs: int
    store: UUID
    version: int
    epoch: int = 0
    broker: Leader | None = None
    runs: tuple[Run, ...] = ()
    ring: tuple[Past, ...] = ()
    garbage: tuple[Dropped, ...] = ()
    tail: tuple[Commit, ...] = ()

    @property
    def flushed(self) -> int:
        """The version up to which the runs have all changes."""
        return self.runs[-1].until if self.runs else 0

    @property
    def run_size(self) -> int:
        """The bytes of all runs before compression."""
        return sum(run.size for run in self.runs)

    @property
    def tail_size(self) -> int:
        """The bytes of all changes in the tail."""
        return sum(len(each) for commit in self.tail for each in commit.changes)

    @property
    def keys(self) -> frozenset[str]:
        """The objects that it names: those a process may still read, and those that wait to be deleted."""
        return frozenset((*(run.key for run in self.runs), *(each.key for each in self.garbage)))

    def followed_by(self, commit: Commit) -> "Head":
        """Return the head with one more commit. One before it that changed nothing leaves the tail, or an idle leader would fill it."""
        tail, ring = self.tail, self.ring
        if tail and not tail[-1].changes:
            tail, ring = tail[:-1], (*ring, Past(tail[-1].version, tail[-1].nonce))[-RING:]
        return structs.replace(self, version=commit.version, tail=(*tail, commit), ring=ring)

    def nonce_of(self, version: int) -> str | None:
        """Return the nonce of a commit; ``None`` if it is too old for this head to name it."""
        known = {each.version: each.nonce for each in self.ring} | {each.version: each.nonce for each in self.tail}
        return known.get(version)


def read(body: bytes) -> Head:
    """Return a head as read. ``msgspec.DecodeError``: it is damaged, not whole, or too large to be one."""
    if len(body) > MOST_HEAD:
        raise DecodeError(f"{KEY} has {len(body)} bytes, more than a store writes")
    try:
        return _decoder.decode(body)
    except RecursionError:
        raise DecodeError(f"{KEY} is nested too deeply") from None


_decoder = msgspec.json.Decoder(Head)
