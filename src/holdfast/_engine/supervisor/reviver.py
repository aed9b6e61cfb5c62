"""The step that repairs workflows and ends those past their deadline, a few at a time, going round by their ids."""

from uuid import UUID

from holdfast._engine.client.reviving import revive
from holdfast._engine.environment import Environment
from holdfast._engine.events import EventName
from holdfast._engine.store_defaults import has_workflows
from holdfast.settings import Settings

WRITES = 10
"""Writes of a pass."""
MOST = 10
"""Workflows of a write, if they are small: the number is doubled after a quick write, and is one again after a slow one."""
QUICK = 0.02
LONGEST = 0.5
"""Seconds after which a pass begins no other write."""


class Reviver:
    """A pass of repairs for each recovery interval. Where it is switched off, it only reports what it would have done."""

    def __init__(self, environment: Environment, settings: Settings) -> None:
        self._environment, self._interval = environment, settings.recovery_interval
        self._is_on = settings.recovery.workflows
        self._after: UUID | None = None
        self._limit = 1

    @property
    def is_needed(self) -> bool:
        """Whether the store keeps workflows."""
        return has_workflows(self._environment.store)

    async def step(self) -> float:
        """Repair some workflows, the next pass goes on behind them; return the seconds until it."""
        now, left = self._environment.clock.monotonic, 0
        started = now()
        for _ in range(WRITES):
            sent = now()
            found = await revive(self._environment, self._limit, after=self._after, dry_run=not self._is_on)
            self._after = found.next
            self._limit = min(MOST, 2 * self._limit) if now() - sent < QUICK else 1
            left += len({each.flow for each in found.repairs}) + len(found.overdue)
            if found.next is None or now() - started > LONGEST:
                break
        if left and not self._is_on:
            self._environment.events.emit(EventName.RECOVERY_SKIPPED, workflows=left)
        return self._interval
