"""What a fork must not tear apart. A forked child has one thread, and copies of locks that others may have held."""

import os
import threading
from typing import Protocol
from weakref import ref


class Forked(Protocol):
    """Something with locks, threads or connections; hashable, and gone when nobody else keeps it."""

    def before_fork(self) -> None:
        """Before a fork: wait for a state that may be copied, and stay in it."""
        ...

    def after_fork_in_parent(self) -> None:
        """After it, in the parent: go on."""
        ...

    def after_fork_in_child(self) -> None:
        """After it, in the child: forget whatever belongs to the parent, without touching it."""
        ...


class Forks:
    """All that this process cares for."""

    def __init__(self) -> None:
        self._known: list[ref[Forked]] = []
        self._held: list[Forked] = []
        self._one_at_a_time = threading.Lock()

    def register(self, each: Forked) -> None:
        """From now on it is told of forks; while it is held it must not wait for anything else that is."""
        self._known.append(ref(each, self._known.remove))

    def before_fork(self) -> None:
        """Before a fork."""
        self._one_at_a_time.acquire()
        # Somebody who was waited for may have made another one meanwhile.
        while fresh := [each for each in self._living() if not any(each is held for held in self._held)]:
            for each in fresh:
                each.before_fork()
                self._held.append(each)

    def after_fork_in_parent(self) -> None:
        """After it, in the parent."""
        while self._held:
            self._held.pop().after_fork_in_parent()
        self._one_at_a_time.release()

    def after_fork_in_child(self) -> None:
        """After it, in the child."""
        self._one_at_a_time = threading.Lock()
        self._held.clear()
        for each in self._living():
            each.after_fork_in_child()

    def _living(self) -> list[Forked]:
        return [each for known in tuple(self._known) if (each := known()) is not None]


FORKS = Forks()
register = FORKS.register

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=FORKS.before_fork, after_in_parent=FORKS.after_fork_in_parent, after_in_child=FORKS.after_fork_in_child
    )
