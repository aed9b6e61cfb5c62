"""``app.jobs`` and all else that operators call: each part is loaded when a program first names it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast._core.durations import Duration
from holdfast._engine.client.connections import Connections
from holdfast.sync import blocking

if TYPE_CHECKING:  # most programs enqueue, and look at nothing
    from holdfast._core.history import By, History
    from holdfast._core.view import Rescued
    from holdfast._engine.operators.audit import Audit
    from holdfast._engine.operators.errors import Errors
    from holdfast._engine.operators.limits import Limits
    from holdfast._engine.operators.operators import Jobs, RecoveryRun, Workers
    from holdfast._engine.operators.queues import Queues
    from holdfast._engine.operators.schedules import Schedules
    from holdfast._engine.operators.workflows import Workflows


class OperatorAccess:
    """The part of an App that operators use."""

    _connections: Connections

    @cached_property
    def jobs(self) -> "Jobs":
        """Look at jobs, cancel them, run them again."""
        from holdfast._engine.operators.operators import Jobs

        return Jobs(self._connections.client)

    @cached_property
    def errors(self) -> "Errors":
        """Look at failures, those of one cause together."""
        from holdfast._engine.operators.errors import Errors

        return Errors(self._connections.client)

    @cached_property
    def audit(self) -> "Audit":
        """Look at what operators did."""
        from holdfast._engine.operators.audit import Audit

        return Audit(self._connections)

    @cached_property
    def queues(self) -> "Queues":
        """Look at queues, pause them, set them."""
        from holdfast._engine.operators.queues import Queues

        return Queues(self._connections.client)

    @cached_property
    def limits(self) -> "Limits":
        """Look at limits, and set them."""
        from holdfast._engine.operators.limits import Limits

        return Limits(self._connections.client)

    @cached_property
    def workers(self) -> "Workers":
        """Look at workers that hold a lease, and at what they did."""
        from holdfast._engine.operators.operators import Workers

        return Workers(self._connections.client)

    @cached_property
    def schedules(self) -> "Schedules":
        """Look at schedules, set them, pause them."""
        from holdfast._engine.operators.schedules import Schedules

        return Schedules(self._connections)

    @cached_property
    def workflows(self) -> "Workflows":
        """Look at workflows, pause them, run their nodes again."""
        from holdfast._engine.operators.workflows import Workflows

        return Workflows(self._connections.client)

    @cached_property
    def recovery(self) -> "RecoveryRun":
        """Take jobs from workers that lost their right to them, by hand."""
        from holdfast._engine.operators.operators import RecoveryRun

        return RecoveryRun(self._recover, self._connections.client)

    async def ahistory(
        self,
        *,
        since: datetime | Duration = "1h",
        until: datetime | None = None,
        step: Duration = "1m",
        queue: str | None = None,
        task: str | None = None,
        by: "By | None" = None,
    ) -> "History":
        """Return what workers did in each step: attempts per second, rescues, waiting and running times, slots in use.

        ``since``: a time, or for how long before ``until``; the store remembers 24 hours. A minute is complete some seconds after its
        end, so ``until`` is the last full step if left out. ``step``: whole minutes. ``by``: the same for each ``"queue"`` or ``"task"``.
        ``Unsupported`` if the store keeps no history.

        >>> [step.rate for step in app.history(since="3m").steps]  # doctest: +SKIP
        [41.8, 40.2, 42.0]
        """
        from holdfast._engine.operators.history import read_history

        client = self._connections.client()
        return await read_history(client, since=since, until=until, step=step, queue=queue, task=task, by=by)

    history = blocking(ahistory)

    async def _recover(self, now: bool, only: Collection[str] | None) -> "Sequence[Rescued]":
        raise NotImplementedError
