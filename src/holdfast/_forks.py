"""Objects that a fork must not copy in the middle of a change: the child has one thread, and copies of locks that others may hold."""

import importlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol
from weakref import ref


class Lock(Protocol):
    """A lock of the standard library."""

    def acquire(self) -> bool:
        """Wait until no other thread has the lock, and take it."""
        ...

    def release(self) -> None:
        """Release the lock for the next thread."""
        ...


class Forked(ABC):
    """An object with locks, threads or connections. It must be hashable; the registry holds it weakly."""

    def _fork_locks(self) -> Sequence[Lock]:
        """Return the locks to hold during a fork, so that the child inherits a consistent state."""
        return ()

    def before_fork(self) -> None:
        """Acquire all locks before a fork."""
        for lock in self._fork_locks():
            lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Release in the parent what ``before_fork`` acquired."""
        for lock in reversed(self._fork_locks()):
            lock.release()

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Forget in the child all that belongs to the parent, without touching it."""


class Forks:
    """Every registered object of this process."""

    def __init__(self) -> None:
        self._known: list[ref[Forked]] = []
        self._held: list[Forked] = []
        self._modules: list[str] = []
        self._one_at_a_time = threading.Lock()

    def load_first(self, *modules: str) -> None:
        """Load these modules before a fork. A child never ends its wait for one that another thread of its parent was loading."""
        self._modules += modules

    def register(self, each: Forked) -> None:
        """Call this object's methods at every fork from now on.

        While the object holds one of its locks, at any time, it must not wait for a lock of another registered object: both could
        wait for each other during a fork.
        """
        self._known.append(ref(each, self._known.remove))

    def before_fork(self) -> None:
        """Prepare every registered object for a fork."""
        if self._known:
            for module in self._modules:
                importlib.import_module(module)
        self._one_at_a_time.acquire()
        # An object that was waited for may have registered another one in the meantime.
        while fresh := [each for each in self._living() if not any(each is held for held in self._held)]:
            for each in fresh:
                each.before_fork()
                self._held.append(each)

    def after_fork_in_parent(self) -> None:
        """Let every object go on in the parent, after the fork."""
        while self._held:
            self._held.pop().after_fork_in_parent()
        self._one_at_a_time.release()

    def after_fork_in_child(self) -> None:
        """Let every object start over in the child, after the fork."""
        self._one_at_a_time = threading.Lock()
        self._held.clear()
        for each in self._living():
            each.after_fork_in_child()

    def _living(self) -> list[Forked]:
        return [each for known in tuple(self._known) if (each := known()) is not None]


FORKS = Forks()
register, load_first = FORKS.register, FORKS.load_first

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=FORKS.before_fork, after_in_parent=FORKS.after_fork_in_parent, after_in_child=FORKS.after_fork_in_child
    )
