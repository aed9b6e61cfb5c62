"""Watched tables with one missing guard, as context managers."""

from typing import Any

from holdfast._engine.rows.run import RowsRun
from holdfast._ports.table import RowFence
from proof.stores.memory_table import MemoryTable, Row
from tests.simulation.patching import patched


def moves_without_the_fence() -> Any:
    """A move checks only whether a row is in progress, and not under which fence."""

    def is_under(self: MemoryTable, row: Row, fence: RowFence) -> bool:
        del fence
        return bool(row[self.watch.status] == self.watch.in_progress)

    return patched(MemoryTable, _is_under=is_under)


def errors_do_not_shrink_batches() -> Any:
    """Only deaths of its workers make the batches of a run smaller, and errors of its handler do not."""
    return patched(RowsRun, _ends=property(lambda run: run._job._claim.job.crashes))
