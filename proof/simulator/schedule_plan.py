"""The schedules of a world: how often they tick, what they do with missed ticks, and what operators do to them."""

import random
from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct

from holdfast._core.job import NewJob
from holdfast._core.schedule import UNNUMBERED, DeclaredSchedule, Definition, Overlap
from holdfast._core.ticks import Cron, Every, When
from holdfast._engine.tasks.registry import TaskDefinition
from proof.search.decisions import Operation
from proof.simulator.programs import NEW

SHARE = 0.15  # of the worlds that may have some
TASKS = ("quick", "raising", "silent", "long", "answering")  # that both releases know, and that no worker is killed for
OPERATIONS = ("pause_schedule", "resume_schedule", "skip_ticks", "set_schedule", "set_schedule", "remove_schedule")
INTERVALS = (0.05, 0.1, 0.25, 0.5, 1.0)  # of a ttl
CRON = Cron("* * * * *")


class DrawnSchedule(Struct, frozen=True, kw_only=True):
    """A schedule; times in seconds. ``is_declared``: the code of workers has it. Only an operator stores the others."""

    name: str
    when: When
    task: str
    catch_up: int
    overlap: Overlap
    jitter: float
    grace: float
    is_declared: bool

    def definition(self, task: TaskDefinition, *, edition: int = 0) -> Definition:
        """Return the definition, or another ``edition`` of it, as a later release or an operator has it."""
        job = NewJob(id=UNNUMBERED, task=task.name, payload=b"{}", policy=task.policy, queue=task.queue)
        return Definition(
            when=Every(self.when.micros * (2 + edition) // 2) if isinstance(self.when, Every) else self.when,
            job=job,
            catch_up=(self.catch_up, 1, 3)[edition % 3],
            overlap=self.overlap if edition % 2 == 0 else Overlap.QUEUE,
            jitter=self.jitter,
            grace=self.grace,
        )


class SchedulesPlan(Struct, frozen=True, kw_only=True):
    """The schedules of a world. ``has_operator``: an operator changes them at random."""

    schedules: tuple[DrawnSchedule, ...]
    has_operator: bool = False

    def bound(self, poll_interval: float) -> float:
        """Return the seconds within which a supervisor looks at schedules again."""
        return 5.0 * poll_interval + 0.1 * len(self.schedules)


def draw_schedules(numbers: random.Random, ttl: float) -> SchedulesPlan | None:
    """Draw schedules for some of the worlds."""
    if numbers.random() >= SHARE:
        return None
    drawn = tuple(_draw_schedule(numbers, f"s{number}", ttl) for number in range(numbers.choice([1, 1, 2, 4])))
    return SchedulesPlan(schedules=drawn, has_operator=numbers.random() < 0.5)


def _draw_schedule(numbers: random.Random, name: str, ttl: float) -> DrawnSchedule:
    interval = timedelta(seconds=ttl * numbers.choice(INTERVALS)) // timedelta(microseconds=1)
    return DrawnSchedule(
        name=name,
        when=CRON if numbers.random() < 0.2 else Every(interval),
        task=numbers.choice(TASKS),
        catch_up=numbers.choice([0, 1, 1, 3, 100]),
        overlap=numbers.choice(list(Overlap)),
        jitter=numbers.choice([0.0, 0.0, ttl * 0.2]),
        grace=numbers.choice([1.0, ttl / 4, ttl]),
        is_declared=numbers.random() < 0.6,
    )


def operations_on(plan: SchedulesPlan, script: Sequence[object] | None, chaos: float, numbers: random.Random) -> list[Operation]:
    """Return the operations of the script, or else drawn ones: the first store the schedules that no code declares."""
    if script is not None:
        return [each for each in script if isinstance(each, Operation) and each.name in OPERATIONS]
    count = len(plan.schedules)
    first = [
        Operation(numbers.random() * chaos / 8, "set_schedule", (number + 0.5) / count, "", 0.0)
        for number, each in enumerate(plan.schedules)
        if not each.is_declared
    ]
    more, time = list[Operation](), numbers.random() * chaos / 8
    while plan.has_operator and time < chaos:
        more.append(Operation(time, numbers.choice(OPERATIONS), numbers.random(), "", float(numbers.choice([0, 1, 2]))))
        time += numbers.random() * chaos / 8
    return sorted([*first, *more], key=lambda each: each.time)


def declared_in(plan: SchedulesPlan | None, known: dict[str, TaskDefinition]) -> list[DeclaredSchedule]:
    """Return the schedules in the code of the release that knows these tasks."""
    declared = [] if plan is None else [each for each in plan.schedules if each.is_declared]
    edition = 0 if known.keys() >= {*NEW} else 1
    return [DeclaredSchedule(each.name, each.definition(known[each.task], edition=edition)) for each in declared]
