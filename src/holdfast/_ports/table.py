"""The port to a user's table: claim, finish, renew, reset, each one atomic statement that is judged by the table's own rows."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from holdfast._core.table_spec import Key, RowOutcome, TableSpec


class RowFence(Struct, frozen=True):
    """The fence of a batch: the values that its rows must still have when they are finished.

    ``stamp``: the table's own time, as a string that the table can read again. ``owner``: ``""`` if the table has no owner column.
    If it has one, the owner alone is the fence, and ``stamp`` may be ``""``: the stamp is unknown when the claim's answer was lost.
    """

    stamp: str
    owner: str


class ClaimedRows(Struct, frozen=True):
    """Claimed rows, each a dict by column, their keys in the same order, and their fence. Without rows, nothing is due."""

    fence: RowFence
    rows: tuple[dict[str, Any], ...]
    keys: tuple[Key, ...]


class ResetRow(Struct, frozen=True):
    """A row that was taken from an owner that had it for too long.

    ``to``: pending again, or failed. ``owner``: the former owner. ``held``: for how many seconds it had the row.
    """

    key: Key
    to: RowOutcome
    owner: str | None
    held: float


class Refusal(Struct, frozen=True):
    """A row that a constraint or a trigger of the user's did not let a verb change; ``error``: the database's message."""

    verb: str
    key: Key
    error: str


class RowHolder(Struct, frozen=True):
    """An owner that has rows at the moment, ``""`` without an owner column. ``oldest``: seconds since its oldest stamp."""

    owner: str
    rows: int
    oldest: float


class Findings(Struct, frozen=True):
    """The findings about a table: problems that prevent its use, warnings, and indexes that it should have.

    ``by_hand``: how an operator creates them, where ``create_indexes`` does not.
    """

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    by_hand: str = ""


class States(Struct, frozen=True):
    """The state of a table, in numbers of rows.

    ``rows``: by value of the status, as a string. ``due``: pending and due. ``stuck``: in progress past ``stale_after``.
    ``oldest``: for how many seconds the oldest row in progress has had its owner.
    """

    rows: dict[str, int]
    due: int
    stuck: int
    oldest: float | None
    holders: tuple[RowHolder, ...]


class RowWriter(Protocol):
    """A writer of row states inside a caller's own transaction: they commit with its statements.

    ``connection``: the driver's connection of that transaction.
    """

    connection: Any

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Move these rows if they still have the fence, and return the keys of those that had it.

        ``is_all``: no other row can have this fence, so that a table may find the rows by it.
        """
        ...


class BlockingRowWriter(Protocol):
    """A ``RowWriter`` for code in a thread: it blocks."""

    connection: Any

    def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Move these rows if they still have the fence, and return the keys of those that had it.

        ``is_all``: no other row can have this fence, so that a table may find the rows by it.
        """
        ...


class Table(Protocol):
    """One watched table. Every verb raises ``StoreUnavailable`` when its effect is unknown, and may be sent again.

    A row that the database refuses to change does not block others. ``claim``, ``release``, ``stamp_unstamped``, ``reset`` and
    ``prune`` change all other rows of their batch, and ``refused`` returns the refused one. Only a claim that gets no row at
    all because of such a refusal raises its error.
    """

    @property
    def watch(self) -> TableSpec:
        """The spec of the table: what is watched, and how."""
        ...

    async def inspect(self) -> Findings:
        """Check columns, types, constraints, triggers, rights and indexes, without changing anything."""
        ...

    async def create_indexes(self) -> tuple[str, ...]:
        """Create the indexes that ``inspect`` suggests; return the statements that were run.

        It does not block other sessions, where the database can do that.
        """
        ...

    async def has_due(self) -> bool:
        """Return whether a claim would find a row."""
        ...

    async def stamps(self, number: int) -> list[str]:
        """Return a stamp for each of ``number`` claims that follow within a moment, so that their fences can be saved before.

        Return none where the owner is the fence, or where only the claim itself knows the time.
        """
        ...

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        """Lock and stamp up to ``limit`` due rows, set their status and owner, and release the locks: no other claim gets them.

        ``owner`` is new for each call, so that ``release`` can return the rows of a claim whose answer was lost. So is
        ``stamp``, one of ``stamps``. Without a stamp, or if rows have that stamp already, the claim takes its own time.
        """
        ...

    async def move(
        self, fence: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        """Finish rows, or return them to pending; return the keys of those that still had the fence.

        A row that was already moved under this fence no longer has it. ``is_all``: no other row can have this fence, so that a
        table may find the rows by the fence.
        """
        ...

    async def release(self, fence: RowFence) -> int:
        """Return all rows that still have the fence to pending, after a handler ended or an attempt died; return how many."""
        ...

    async def renew(self, fence: RowFence) -> RowFence | None:
        """Give the rows that still have the fence a new stamp; ``None`` if no row has it. Only with an owner column."""
        ...

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        """Stamp rows in progress that have no stamp, or one that no clock can have produced: their time runs from now on.

        Return their keys. A row that is returned again did not keep its stamp.
        """
        ...

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        """Take rows from owners that have had them for longer than ``stale_after``, oldest first, without the first ``past``."""
        ...

    async def prune(self, limit: int) -> int:
        """Delete rows that have been done for longer than their retention; return how many."""
        ...

    async def unreadable(self, limit: int) -> list[Key]:
        """Return at most ``limit`` rows in progress whose stamp cannot be compared with a time: no verb takes them back."""
        ...

    def refused(self) -> list[Refusal]:
        """Return the rows that were refused since the last call; a row that is refused again comes again after ten minutes."""
        ...

    async def states(self) -> States:
        """Return how many rows are in which state, and which owners have rows."""
        ...

    def transaction(self, fence: RowFence) -> AbstractAsyncContextManager[RowWriter]:
        """Open a transaction for the caller's statements, in which rows with this fence can be moved."""
        ...

    def blocking_transaction(self, fence: RowFence) -> AbstractContextManager[BlockingRowWriter]:
        """Open the same transaction for code that is not awaited."""
        ...

    async def close(self) -> None: ...
