"""The history of workers: once a minute a beat carries a note on each of them."""

from collections.abc import Iterable

from holdfast._core.requests import BeatNote
from holdfast._engine.store_defaults import has_history
from holdfast._engine.supervisor.worker_handle import WorkerHandle
from holdfast._ports.host import Host
from holdfast._ports.store import Store

INTERVAL = 60.0


class BeatHistory:
    """Decides which beats carry notes. ``kept``: the seconds for which the store remembers a note; 0: no beat carries any."""

    def __init__(self, store: Store, host: Host, *, kept: float) -> None:
        self._host, self._kept = host, kept if has_history(store) else 0.0
        self._noted = float("-inf")

    def notes(self, workers: Iterable[WorkerHandle], sent: float) -> tuple[BeatNote, ...]:
        """Return the notes for a beat that is sent now, which most have none of.

        If that beat fails, the next one is sent without them: a lock on the history must cost no lease.
        """
        if not self._kept or sent - self._noted < INTERVAL:
            return ()
        notes = tuple(worker.note(self._kept, self._host.memory(worker.child.process)) for worker in workers)
        if notes:
            self._noted = sent
        return notes
