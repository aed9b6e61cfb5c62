"""The book of this process, as of the newest head that it has read or written."""

from collections.abc import Callable

import msgspec

from holdfast._core.book.book import Book
from holdfast._core.book.state import Savepoint
from holdfast._core.book.table import RowChange
from holdfast._core.flow_changes import FlowChange, FlowChanges
from holdfast._core.release import UPGRADE
from holdfast._ports.bucket import ABSENT, UNCHANGED, Bucket, BucketProblem, BucketUnavailable
from holdfast.errors import ConfigurationError, SchemaMissing, SchemaTooNew, StoreFull
from holdfast.stores.objects.head import FORMAT, KEY, Head, read
from holdfast.stores.objects.limits import LIMITS, Limits
from holdfast.stores.objects.notices import Notices
from holdfast.stores.objects.pieces import Damaged, load


class Replica:
    """A book that follows a head. While it has uncommitted changes, it must not look."""

    def __init__(self, bucket: Bucket, name: str, new_book: Callable[[], Book] = Book, limits: Limits = LIMITS) -> None:
        self._bucket, self._name, self._new_book, self._limits = bucket, name, new_book, limits
        self.notices = Notices(limits)
        self.book, self.flow_changes = new_book(), FlowChanges()
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
            raise SchemaMissing(f"{self._name}: there is no store here yet: run `holdfast migrate module:app`")
        new = self._read(found.body)
        try:
            await self._follow(new)
        except Damaged as error:
            self.notices.damage(error.key, error.what)
            raise
        is_new = self._head is None or self._head.version != new.version
        self._take(new, found.etag)
        return is_new

    def adopt(self, head: Head, etag: str) -> None:
        """Take a head that this process has written: the book has its changes already."""
        self.book.forget_journal()
        self.flow_changes.add(self.book.flow_changes.take())
        self._take(head, etag)

    def undo(self) -> tuple[FlowChange, ...]:
        """Take back what the head does not have; return what it would have done to workflows."""
        self.book.undo(Savepoint(0, self.book.flow_changes.added))
        return self.book.flow_changes.take()

    def require_room(self) -> None:
        """Raise ``StoreFull`` if the store has reached a limit, with the jobs that a verb has just added to the book."""
        if (excess := self._limits.excess(self.book.job_count, self.head.run_size)) is not None:
            raise StoreFull(f"{self._name} takes no new jobs, because it would have {excess.problem}: {excess.remedy}")

    def _take(self, head: Head, etag: str) -> None:
        self._head, self.etag = head, etag
        self.notices.measure(self.book.job_count, head.run_size)

    def _read(self, body: bytes) -> Head:
        try:
            new = read(body)
        except msgspec.DecodeError:
            problem = (
                f"{self._name}: {KEY} cannot be read, as `holdfast store verify` shows: it is damaged, or cut off by a gateway"
            )
            raise BucketUnavailable(problem, BucketProblem.SERVER) from None
        if new.needs > FORMAT:
            raise SchemaTooNew(f"{self._name}: it was migrated by a newer release: {UPGRADE}")
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
        except (msgspec.DecodeError, RecursionError):
            raise Damaged(f"{self._name}: a commit in {KEY}", "cannot be read") from None
        if missing and missing[0] is new.runs[0]:
            self.book = self._new_book()  # the oldest run does not name what was deleted
        self.book.load(rows)
        self.others += len(missing) + len(later)
