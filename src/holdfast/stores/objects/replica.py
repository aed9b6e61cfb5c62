"""The book of this process, as of the newest head that it has read or written."""

import msgspec

from holdfast._core.book.book import Book
from holdfast._core.book.state import Savepoint
from holdfast._core.book.table import RowChange
from holdfast._core.flow_changes import FlowChanges
from holdfast._ports.bucket import ABSENT, UNCHANGED, Bucket, BucketProblem, BucketUnavailable
from holdfast.errors import ConfigurationError, SchemaMissing, SchemaTooNew
from holdfast.stores.objects.head import FORMAT, KEY, Head, read
from holdfast.stores.objects.pieces import damaged, load


class Replica:
    """A book that follows a head. While it has uncommitted changes, it must not look."""

    def __init__(self, bucket: Bucket, name: str) -> None:
        self._bucket, self._name = bucket, name
        self.book, self.flow_changes = Book(), FlowChanges()
        self._head: Head | None = None
        self.etag = ""
        self.others = 0  # commits of other processes, or of calls whose answer was lost

    @property
    def head(self) -> Head:
        """The newest head that is known."""
        assert self._head is not None
        return self._head

    @property
    def known(self) -> Head | None:
        """The newest head that is known; ``None`` before the first look."""
        return self._head

    async def look(self) -> bool:
        """Read the head, and all that is new in it; return whether anything is. ``BucketUnavailable``: no answer that counts."""
        found = await self._bucket.get(KEY, self.etag if self._head is not None else None)
        if found is UNCHANGED:
            return False
        if found is ABSENT:
            raise SchemaMissing(f"{self._name}: there is no store here yet: run holdfast migrate")
        new = self._read(found.body)
        await self._follow(new)
        is_new = self._head is None or self._head.version != new.version
        self._head, self.etag = new, found.etag
        return is_new

    def adopt(self, head: Head, etag: str) -> None:
        """Take a head that this process has written: the book has its changes already."""
        self.book.forget_journal()
        self.flow_changes.add(self.book.flow_changes.take())
        self._head, self.etag = head, etag

    def undo(self) -> None:
        """Take back what the head does not have."""
        self.book.undo(Savepoint(0, self.book.flow_changes.added))
        self.book.flow_changes.take()

    def _read(self, body: bytes) -> Head:
        try:
            new = read(body)
        except msgspec.DecodeError:
            problem = f"{self._name}: {KEY} cannot be read: a gateway showed a part of it, or it is damaged"
            raise BucketUnavailable(problem, BucketProblem.SERVER) from None
        if new.needs > FORMAT:
            raise SchemaTooNew(f"{self._name}: it was migrated by a newer release: update this process")
        old = self._head
        if old is not None and old.store != new.store:
            problem = f"{self._name}: the store was replaced or restored since this process started: start the process again"
            raise ConfigurationError([problem])
        if old is not None and old.version > new.version:
            problem = f"{self._name}: a read returned an older {KEY}: remove the cache between Holdfast and the bucket"
            raise BucketUnavailable(problem, BucketProblem.SERVER)
        return new

    async def _follow(self, new: Head) -> None:
        known = 0 if self._head is None else self._head.version
        missing = [run for run in new.runs if run.until > known] if new.flushed > known else []
        rows: list[RowChange] = [row for run in missing for row in await load(self._bucket, run)]
        later = [commit for commit in new.tail if commit.version > known]
        try:
            rows += [row for commit in later for row in commit.rows()]
        except msgspec.DecodeError:
            raise damaged(f"{self._name}: a commit in {KEY} cannot be read") from None
        if missing and missing[0] is new.runs[0]:
            self.book = Book()  # the oldest run does not name what was deleted
        self.book.load(rows)
        self.others += len(missing) + len(later)
