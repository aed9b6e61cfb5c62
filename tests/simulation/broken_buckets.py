"""Stores in a bucket with one missing guard, each in the real code of a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast._core.book.book import Book
from holdfast._core.book.state import Savepoint
from holdfast._ports.bucket import BucketProblem, BucketUnavailable
from holdfast.stores.objects import committer, pieces
from holdfast.stores.objects.committer import Committer, Made, Request
from holdfast.stores.objects.head import Head
from holdfast.stores.objects.replica import Replica
from holdfast.stores.objects.sightings import Sightings
from holdfast.stores.objects.wall_clock import WallClock
from proof.simulator.loop import PROCESS, Process
from tests.simulation.patching import patched


class NumbersNotUndone(Book):
    """What is taken back leaves the numbers that it has drawn."""

    def undo(self, savepoint: Savepoint) -> None:
        drawn = dict(self._all.numbers)
        super().undo(savepoint)
        for name, number in drawn.items():
            self._all.numbers.place(name, number)


@contextmanager
def nonces_ignored() -> Iterator[None]:
    """A batch whose write had no answer is written again, without a look for its nonce."""
    with patched(Head, nonce_of=lambda self, version: "unknown"):
        yield


@contextmanager
def conditions_believed() -> Iterator[None]:
    """A write that the server reports as a lost race is written again, without a look for its nonce."""
    write, nonce_of, lost = Committer._write, Head.nonce_of, set[str]()

    async def believing(self: Committer, base: Head, made: Made, nonce: str) -> None:
        try:
            await write(self, base, made, nonce)
        except BucketUnavailable as error:
            if error.problem is BucketProblem.CONDITION:
                lost.add(nonce)
            raise

    def forgetting(self: Head, version: int) -> str | None:
        found = nonce_of(self, version)
        return "unknown" if found in lost else found

    with patched(Committer, _write=believing), patched(Head, nonce_of=forgetting):
        yield


@contextmanager
def commits_without_nonce() -> Iterator[None]:
    """A process takes any commit of the version that it has tried to write for its own."""
    write, newest = Committer._write, dict[Process | None, str]()

    async def noting(self: Committer, base: Head, made: Made, nonce: str) -> None:
        newest[PROCESS.get()] = nonce
        await write(self, base, made, nonce)

    with patched(Committer, _write=noting), patched(Head, nonce_of=lambda self, version: newest.get(PROCESS.get())):
        yield


@contextmanager
def answered_before_written() -> Iterator[None]:
    """Answers leave when the verbs are applied, before the write."""
    apply = Committer._apply

    def applied(self: Committer, batch: list[Request], *, may_be_part: bool) -> Made:
        made = apply(self, batch, may_be_part=may_be_part)
        committer._leave(batch, made)
        return made

    with patched(Committer, _apply=applied):
        yield


@contextmanager
def empty_answers_from_memory() -> Iterator[None]:
    """A batch that changes nothing is answered from the book as it is, without a read."""
    apply, look, empty = Committer._apply, Committer._look, dict[int, bool]()

    def applied(self: Committer, batch: list[Request], *, may_be_part: bool) -> Made:
        made = apply(self, batch, may_be_part=may_be_part)
        empty[id(self)] = not made.changes
        return made

    async def looked(self: Committer, deadline: float) -> bool:
        if empty.pop(id(self), False) and self._is_known:
            return False
        return await look(self, deadline)

    with patched(Committer, _apply=applied, _look=looked):
        yield


@contextmanager
def nothing_undone() -> Iterator[None]:
    """The book keeps the changes of a write that did not land."""
    with patched(Replica, undo=lambda self: None):
        yield


@contextmanager
def deletions_dropped() -> Iterator[None]:
    """A merge drops deletions also where an older run has the row."""
    merged = pieces._merged

    def dropping(*arguments: Any, drops_deletions: bool) -> bytes:
        del drops_deletions
        return merged(*arguments, drops_deletions=True)

    with patched(pieces, _merged=dropping):
        yield


@contextmanager
def sightings_kept() -> Iterator[None]:
    """A judge counts the time of an outage, in which no owner could renew its lease."""
    with patched(Sightings, forget=lambda self: None):
        yield


@contextmanager
def walls_uncorrected() -> Iterator[None]:
    """Each process writes the time of the wall clock of its machine, which may be wrong."""

    async def compare(self: WallClock) -> None:
        self._compared_at = self._clock.monotonic()

    with patched(WallClock, compare=compare):
        yield
