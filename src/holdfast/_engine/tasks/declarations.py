"""``app.schedule(…)``, ``app.queue(…)`` and ``app.limit(…)``. What checks them is loaded by a program that declares one."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._core.durations import Duration
    from holdfast._core.limits import Limit
    from holdfast._core.ticks import When
    from holdfast._engine.tasks.registry import Registry
    from holdfast._engine.tasks.schedules import CatchUp, OverlapName
    from holdfast._engine.tasks.task import PreparedJob


class Declarations(ABC):
    """What schedules, queues and limits can be declared with: an App."""

    registry: Registry

    def schedule(
        self,
        when: When,
        job: PreparedJob[Any],
        *,
        name: str | None = None,
        catch_up: CatchUp = "last",
        overlap: OverlapName = "skip",
        jitter: Duration | None = None,
        grace: Duration = "1m",
    ) -> None:
        """Enqueue this job at each tick: one job a tick, for any number of supervisors. Workers store it when they start.

        ``name``: the schedule's name; the task's name if missing. ``catch_up``: a tick later than ``grace`` is missed; of the missed ones
        the newest fires (``"last"``), none, the newest hundred (``"all"``), or that number. ``overlap``: while the last tick's
        job has not finished, a tick is left out (``"skip"``), its job waits too (``"queue"``), or the last job is cancelled.
        ``jitter``: delay each tick's job by a part of it. ``ConfigurationError`` with every problem found.

        >>> app.schedule(every("5m"), refresh.bind(), name="refresh")  # doctest: +SKIP
        >>> app.schedule(cron("0 3 * * *", tz="Europe/Berlin"), load.bind("prices"), name="nightly")  # doctest: +SKIP
        """
        from holdfast._engine.tasks.schedules import declare

        declared = declare(when, job, name=name, catch_up=catch_up, overlap=overlap, jitter=jitter, grace=grace)
        self.registry.add_schedule(declared)

    def queue(
        self,
        name: str,
        *,
        priority: int = 0,
        weight: int = 1,
        limit: Limit | None = None,
        key_weights: Mapping[str, int] | None = None,
    ) -> None:
        """Declare how a queue is served. Workers store it when they start; what an operator has set stays.

        ``priority`` is added to that of each of its jobs; smaller runs sooner. Among the lanes of one priority, which are the keys of
        queues, ``weight`` is how many jobs one turn has, and ``key_weights`` multiplies it for some keys. ``limit``: how many of its
        jobs may be active at once or start in a time, in the whole cluster. ``ConfigurationError`` with every problem found.

        >>> app.queue("mail", priority=-10, weight=3, limit=Limit(rate="100/m"), key_weights={"acme": 3})  # doctest: +SKIP
        """
        from holdfast._engine.tasks.limits import declare_queue

        declare_queue(self.registry, name, priority, weight, limit=limit, key_weights=key_weights)

    def limit(self, limit: Limit) -> None:
        """Declare the limit of all jobs in the cluster. Workers store it when they start; what an operator has set stays.

        >>> app.limit(Limit(concurrency=500))  # doctest: +SKIP
        """
        from holdfast._engine.tasks.limits import declare_limit

        declare_limit(self.registry, limit)
