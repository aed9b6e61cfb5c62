"""Processes whose lease has ended, which must end soon, and processes that cannot reach the store, which must call it seldom."""

from uuid import UUID

from msgspec import Struct, field

from proof.checker.history import Event, LeaseRow
from proof.checker.verdicts import CheckContext, Seers

NEVER = float("inf")


class _Process(Struct):
    """One process. ``leases``: its leases that have not ended. ``ended``: when another process ended the last one.

    ``hampered``: until when it was frozen.
    """

    leases: set[UUID] = field(default_factory=set)
    ended: tuple[float, LeaseRow] | None = None
    hampered: float = 0.0
    is_frozen: bool = False
    is_dead: bool = False


class Zombies:
    """The rules of L5 and L9."""

    def __init__(self, context: CheckContext) -> None:
        self._context, self._expect = context, context.expect
        self._processes: dict[str, _Process] = {}
        self._calm_since = NEVER

    def seers(self) -> Seers:
        """Return the events that these rules read, where their properties are promised."""
        seers: Seers = {}
        if self._context.rules.calls is not None:
            seers |= {"process.connect": self._see_connect}
        if self._context.rules.zombie_bound is not None:
            seers |= {"lease": self._see_lease, "process.end": self._see_death, "calm": self._see_calm}
            seers |= {"process.freeze": self._see_freeze, "process.thaw": self._see_thaw}
        return seers

    def finish(self) -> None:
        """Report the workers that still live long after their lease has ended."""
        for name, process in self._processes.items():
            if not process.is_dead and not process.is_frozen:
                self._expect_gone(name, process)

    def _see_lease(self, event: Event) -> None:
        after = event.after
        if not isinstance(after, LeaseRow) or event.lease is None:
            return
        process = self._of(after.process)
        if not after.is_ended:
            if after.process in self._context.apps:  # the process continues with another worker instead of dying
                self._expect_gone(after.process, process)
            process.leases.add(event.lease)  # several, if the answer to the opening of the first one was lost
            process.ended = None
        elif event.lease in process.leases:
            process.leases.remove(event.lease)
            if not process.leases and event.process != after.process:
                process.ended = event.time, after

    def _see_death(self, event: Event) -> None:
        process = self._of(event.process)
        process.is_dead = True
        self._expect_gone(event.process, process)

    def _expect_gone(self, name: str, process: _Process) -> None:
        if process.ended is None or self._calm_since == NEVER:
            return
        if name in self._context.blocked:  # an application with a blocked event loop learns nothing, and is not killed
            return
        bound = self._context.rules.zombie_bound_of(process.ended[1])
        took = self._context.now - max(process.ended[0], process.hampered, self._calm_since)
        self._expect("L5", took <= bound, None, "{} lived for {:.2f} s after its lease had been ended", name, took)

    def _see_freeze(self, event: Event) -> None:
        self._of(event.process).is_frozen = True

    def _see_thaw(self, event: Event) -> None:
        process = self._of(event.process)
        process.is_frozen, process.hampered = False, event.time

    def _see_calm(self, event: Event) -> None:
        self._calm_since = event.time

    def _see_connect(self, event: Event) -> None:
        """Check the calls of an outage: the note of the event states how many failed, and in how many seconds."""
        certain, each_second = self._context.rules.calls or (NEVER, NEVER)
        calls, seconds = (float(word) for word in event.note.split())
        both = 2 if event.process in self._context.apps else 1  # a worker and its supervisor
        allowed = both * (certain + each_second * seconds)
        problem = "{} called the store {:.0f} times in an outage of {:.1f} s, and {:.0f} are allowed"
        self._expect("L9", calls <= allowed, None, problem, event.process, calls, seconds, allowed)

    def _of(self, name: str) -> _Process:
        return self._processes.setdefault(name, _Process())
