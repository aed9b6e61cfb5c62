"""``app.jobs`` and all else that operators call: each part is loaded when a program first names it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from holdfast._core.durations import Duration
from holdfast._engine.client.connections import Connections
from holdfast._forks import load_first
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


Made = TypeVar("Made", covariant=True)

load_first(
    "holdfast._core.tallies",
    "holdfast._engine.client.client",
    "holdfast._engine.client.explaining",
    "holdfast._engine.client.within",
    "holdfast._engine.environment",
    "holdfast._engine.operators.audit",
    "holdfast._engine.operators.errors",
    "holdfast._engine.operators.history",
    "holdfast._engine.operators.limits",
    "holdfast._engine.operators.operators",
    "holdfast._engine.operators.queues",
    "holdfast._engine.operators.schedules",
    "holdfast._engine.operators.workflows",
)


class part(cached_property[Made]):  # noqa: N801 - a decorator
    """A property that is made when it is first read. It has no lock, which a fork would leave locked in the child (Python 3.11)."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Made: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | Made:
        """Return what the first thread made: all threads get the same."""
        if instance is None:
            return self
        made: Made = instance.__dict__.setdefault(self.func.__name__, self.func(instance))
        return made


class OperatorAccess:
    """The part of an App that operators use."""

    _connections: Connections

    @part
    def jobs(self) -> "Jobs":
        """Look at jobs, cancel them, run them again."""
        from holdfast._engine.operators.operators import Jobs

        return Jobs(self._connections.client)

    @part
    def errors(self) -> "Errors":
        """Look at failures, those of one cause together."""
        from holdfast._engine.operators.errors import Errors

        return Errors(self._connections.client)

    @part
    def audit(self) -> "Audit":
        """Look at what operators did."""
        from holdfast._engine.operators.audit import Audit

        return Audit(self._connections)

    @part
    def queues(self) -> "Queues":
        """Look at queues, pause them, set them."""
        from holdfast._engine.operators.queues import Queues

        return Queues(self._connections.client)

    @part
    def limits(self) -> "Limits":
        """Look at limits, and set them."""
        from holdfast._engine.operators.limits import Limits

        return Limits(self._connections.client)

    @part
    def workers(self) -> "Workers":
        """Look at workers that hold a lease, and at what they did."""
        from holdfast._engine.operators.operators import Workers

        return Workers(self._connections.client)

    @part
    def schedules(self) -> "Schedules":
        """Look at schedules, set them, pause them."""
        from holdfast._engine.operators.schedules import Schedules

        return Schedules(self._connections)

    @part
    def workflows(self) -> "Workflows":
        """Look at workflows, pause them, run their nodes again."""
        from holdfast._engine.operators.workflows import Workflows

        return Workflows(self._connections.client)

    @part
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

    if TYPE_CHECKING:  # the App has it

        async def _recover(self, now: bool, only: Collection[str] | None) -> Sequence[Rescued]: ...
