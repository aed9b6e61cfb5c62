"""The port to a table that is not ours: claim, finish, renew, reset, each one atomic statement judged by the table's own rows."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from holdfast._core.table_spec import Key, RowOutcome, TableSpec


class RowFence(Struct, frozen=True):
    """The fence of a batch: what its rows must still say when they are finished.

    ``stamp``: the table's own time, as text that the table can read again; ``owner``: ``""`` without an owner column. With one
    it alone is the fence, and ``stamp`` may be ``""``: so a claim whose answer was lost can be released by its owner.
    """

    stamp: str
    owner: str


class ClaimedRows(Struct, frozen=True):
    """Rows that are ours now, each a dict by column, their keys in the same order, and under which mark. No row: nothing is due."""

    fence: RowFence
    rows: tuple[dict[str, Any], ...]
    keys: tuple[Key, ...]


class ResetRow(Struct, frozen=True):
    """A row that was taken from somebody who had it for too long; ``to``: pending again, or failed. ``owner``: whose it was."""

    key: Key
    to: RowOutcome
    owner: str | None
    held: float


class Refusal(Struct, frozen=True):
    """A row that the database did not let a verb change, by a constraint or a trigger of the user's; ``error``: its words."""

    verb: str
    key: Key
    error: str


class RowHolder(Struct, frozen=True):
    """Who has rows at the moment, ``""`` without an owner column; ``oldest``: seconds since the oldest of their stamps."""

    owner: str
    rows: int
    oldest: float


class Findings(Struct, frozen=True):
    """What a look at the table told: what stands in the way, what is only worth a word, and indexes that it should have."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()


class States(Struct, frozen=True):
    """How it stands. ``rows``: by value of the status, as text; ``due``: pending and due; ``stuck``: past ``stale_after``."""

    rows: dict[str, int]
    due: int
    stuck: int
    oldest: float | None
    holders: tuple[RowHolder, ...]


class RowWriter(Protocol):
    """Row states inside a caller's own transaction: they commit with its statements. ``connection``: the driver's."""

    connection: Any

    async def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Which of them were still under the mark, and have moved. ``is_all``: no other row can be under it."""
        ...


class BlockingRowWriter(Protocol):
    """The same for code that is not awaited."""

    connection: Any

    def move(self, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False) -> list[Key]:
        """Which of them were still under the mark, and have moved. ``is_all``: no other row can be under it."""
        ...


class Table(Protocol):
    """One table, watched. Every verb raises ``StoreUnavailable`` when it is not known what became of it, and may be sent again.

    A row that the database refuses to change stands in no other's way: ``claim``, ``release``, ``adopt``, ``reset`` and ``prune``
    change all others of their batch, and ``refused`` has it. Only a claim that gets no row at all raises.
    """

    @property
    def watch(self) -> TableSpec:
        """What is watched, and how."""
        ...

    async def inspect(self) -> Findings:
        """Columns, types, constraints, triggers, rights and indexes; nothing is changed."""
        ...

    async def create_indexes(self) -> tuple[str, ...]:
        """Those that ``inspect`` suggests, without standing in anybody's way where the database can do that; what was run."""
        ...

    async def has_due(self) -> bool:
        """Whether a claim would find something."""
        ...

    async def stamps(self, number: int) -> list[str]:
        """For claims within a moment from now, one for each, so that their marks can be saved before; none where the owner is the
        fence, or only the claim itself knows the time."""
        ...

    async def claim(self, owner: str, limit: int, stamp: str = "") -> ClaimedRows:
        """Lock, mark and stamp up to ``limit`` rows that are due, and let go of the locks: nobody else gets one of them.

        ``owner`` is new for each call, so that a claim whose answer was lost can be given back by ``release``; so is ``stamp``,
        one of ``stamps``. Without, or where somebody has rows under it already, it is that of the claim.
        """
        ...

    async def move(
        self, mark: RowFence, keys: Sequence[Key], end: RowOutcome, reason: str = "", *, is_all: bool = False
    ) -> list[Key]:
        """Finish rows, or give them back; which of them were still under the mark. What was moved under it before is not.
        ``is_all``: no other row can be under it, so that a table may look for them by that."""
        ...

    async def release(self, mark: RowFence) -> int:
        """Give back all rows that are still under the mark: of a handler that ended, or of an attempt that died."""
        ...

    async def renew(self, mark: RowFence) -> RowFence | None:
        """Stamp the rows that are still under the mark anew; ``None``: there are none. Only with an owner column."""
        ...

    async def stamp_unstamped(self, limit: int) -> list[Key]:
        """Stamp rows in progress that have no stamp, or one that no clock can have said: from now on their time runs. Which ones:
        a row that comes again was given its stamp for nothing."""
        ...

    async def reset(self, limit: int, past: int = 0) -> list[ResetRow]:
        """Take rows from whoever has had them for longer than ``stale_after``, oldest first, without the first ``past``."""
        ...

    async def prune(self, limit: int) -> int:
        """Delete rows that have been done for longer than their retention; how many."""
        ...

    async def unreadable(self, limit: int) -> list[Key]:
        """Rows in progress whose stamp is of no form that can be compared: no verb takes them back. At most ``limit`` of them."""
        ...

    def refused(self) -> list[Refusal]:
        """Return the rows that were refused since the last call; those that are refused again, ten minutes later."""
        ...

    async def states(self) -> States:
        """How it stands."""
        ...

    def transaction(self, mark: RowFence) -> AbstractAsyncContextManager[RowWriter]:
        """One of the caller's own, in which rows can be moved."""
        ...

    def blocking_transaction(self, mark: RowFence) -> AbstractContextManager[BlockingRowWriter]:
        """The same for code that is not awaited."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
