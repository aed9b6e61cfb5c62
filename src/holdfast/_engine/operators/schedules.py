"""What people and programs do with schedules: see them, change them, stop them, run them now."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import structs

from holdfast._core.durations import Duration
from holdfast._core.schedule import Schedule, ScheduleView, Source, defined, pausing, skipping
from holdfast._core.ticks import When
from holdfast._engine.client.connections import Connections
from holdfast._engine.client.handle import Handle, handles_of
from holdfast._engine.tasks.schedules import CatchUp, OverlapName, declare
from holdfast._engine.tasks.task import PreparedJob
from holdfast.errors import ConfigurationError
from holdfast.sync import blocking

MOST_SHOWN = 1_000

Change = Callable[[Schedule, datetime], Schedule]


class Schedules:
    """``app.schedules``: the schedules in the store, from code and from operators."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def alist(self, *, next: int = 1) -> list[ScheduleView]:
        """Return all schedules, by name, each with its ``next`` ticks.

        >>> for each in app.schedules.list(next=3): print(each.name, *each.next)  # doctest: +SKIP
        """
        number = _number("next", next)
        return [ScheduleView.of(each, number) for each in (await self._connections.client().schedules()).found]

    async def aset(
        self,
        name: str,
        when: When,
        job: PreparedJob[Any],
        *,
        catch_up: CatchUp = "last",
        overlap: OverlapName = "skip",
        jitter: Duration | None = None,
        grace: Duration = "1m",
    ) -> ScheduleView:
        """Store a schedule that is in no code, or change one. It then stays as it is set here: code does not change it back.

        Its next tick is the first one after now; a pause stays. ``remove`` returns it to the code, if there is one that has it.
        """
        declared = declare(when, job, name=name, catch_up=catch_up, overlap=overlap, jitter=jitter, grace=grace)
        edition = self._connections.chance.uuid4()

        def change(old: Schedule | None, now: datetime) -> Schedule:
            return defined(name, declared.definition, old, now, edition, Source.OPERATOR)

        return ScheduleView.of(await self._connections.client().change_schedule(name, "schedule.set", change), 1)

    async def aremove(self, name: str) -> None:
        """Forget a schedule; its jobs stay. A worker whose code has it stores it again within a minute: ``pause`` stops such a one."""
        await self._require(name)
        await self._connections.client().remove_schedule(name)

    async def apause(self, name: str) -> ScheduleView:
        """Stop a schedule until it is resumed, also through new releases of the code that has it. Ticks until then are not missed."""
        return await self._change(name, "schedule.pause", lambda old, now: pausing(old, now, is_paused=True))

    async def aresume(self, name: str) -> ScheduleView:
        """Let a paused schedule go on with its first tick after now."""
        return await self._change(name, "schedule.resume", lambda old, now: pausing(old, now, is_paused=False))

    async def askip(self, name: str, n: int = 1) -> ScheduleView:
        """Leave out the next ``n`` ticks."""
        number = _number("n", n)
        return await self._change(name, "schedule.skip", lambda old, now: skipping(old, number))

    async def arun_now(self, name: str) -> Handle:
        """Enqueue the schedule's job now, beside its ticks: they stay as they are, and ``overlap`` does not count this job."""
        client, schedule = self._connections.client(), await self._require(name)
        job = structs.replace(schedule.definition.job, id=self._connections.chance.uuid7())
        return handles_of([job], await client.run_schedule(name, job), self._connections.client)[0]

    list = blocking(alist)
    set = blocking(aset)
    remove = blocking(aremove)
    pause = blocking(apause)
    resume = blocking(aresume)
    skip = blocking(askip)
    run_now = blocking(arun_now)

    async def _require(self, name: str) -> Schedule:
        for each in (await self._connections.client().schedules()).found:
            if each.name == name:
                return each
        raise _unknown(name)

    async def _change(self, name: str, action: str, change: Change) -> ScheduleView:
        def changed(old: Schedule | None, now: datetime) -> Schedule:
            if old is None:
                raise _unknown(name)
            return change(old, now)

        return ScheduleView.of(await self._connections.client().change_schedule(name, action, changed), 1)


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError([f"schedule {name!r}: there is none of this name; see `holdfast schedules list`"])


def _number(option: str, value: int) -> int:
    if type(value) is not int or not 1 <= value <= MOST_SHOWN:
        raise ConfigurationError([f"{option}={value!r}: use a number from 1 to {MOST_SHOWN}"])
    return value
