"""What a fork must not tear apart. A forked child has one thread, and copies of locks that others may have held."""

import os
import threading
from typing import Protocol
from weakref import ref


class Forked(Protocol):
    """Something with locks, threads or connections; hashable, and gone when nobody else keeps it."""

    def hold(self) -> None:
        """Before a fork: wait for a state that may be copied, and stay in it."""
        ...

    def release(self) -> None:
        """After it, in the parent: go on."""
        ...

    def start_afresh(self) -> None:
        """After it, in the child: forget whatever belongs to the parent, without touching it."""
        ...


class Forks:
    """All that this process cares for."""

    def __init__(self) -> None:
        self._known: list[ref[Forked]] = []
        self._held: list[Forked] = []
        self._one_at_a_time = threading.Lock()

    def care_for(self, each: Forked) -> None:
        """From now on it is told of forks; while it is held it must not wait for anything else that is."""
        self._known.append(ref(each, self._known.remove))

    def hold(self) -> None:
        """Before a fork."""
        self._one_at_a_time.acquire()
        # Somebody who was waited for may have made another one meanwhile.
        while fresh := [each for each in self._living() if not any(each is held for held in self._held)]:
            for each in fresh:
                each.hold()
                self._held.append(each)

    def release(self) -> None:
        """After it, in the parent."""
        while self._held:
            self._held.pop().release()
        self._one_at_a_time.release()

    def start_afresh(self) -> None:
        """After it, in the child."""
        self._one_at_a_time = threading.Lock()
        self._held.clear()
        for each in self._living():
            each.start_afresh()

    def _living(self) -> list[Forked]:
        return [each for known in tuple(self._known) if (each := known()) is not None]


FORKS = Forks()
care_for = FORKS.care_for

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=FORKS.hold, after_in_parent=FORKS.release, after_in_child=FORKS.start_afresh)
