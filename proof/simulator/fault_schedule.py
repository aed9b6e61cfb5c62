"""The times and targets of faults: drawn before the world runs, so that nothing in the run changes them."""

import random
from collections.abc import Iterator
from typing import Final

from holdfast.stores.objects.election import LEADER_TTL
from proof.search.decisions import Operation, Strike
from proof.simulator.plans import OPERATIONS, QUEUES, Mode, Plan
from proof.simulator.profiles import Brand

BREAKS = ("kill_together", "freeze_together", "freeze_supervisor", "freeze_sessions", "cut_together", "cut_sessions", "")
APP_BREAKS = ("kill_app", "freeze_app", "cut_app", "")
_ALL_APP_STRIKES = ("kill_app", "freeze_app", "cut_app", "drain_app")
APP_STRIKES = {
    Mode.SAFETY: _ALL_APP_STRIKES,
    Mode.LIVENESS: _ALL_APP_STRIKES,
    Mode.BEYOND: _ALL_APP_STRIKES,
    Mode.BRINK: ("freeze_app", "cut_app"),
    Mode.DRAINS: ("drain_app",),
}
"""In the other modes no fault hits a single process."""
_ALL_BROKER_STRIKES = ("kill_broker", "freeze_broker", "cut_broker", "drain_broker")
BROKER_STRIKES = {
    Mode.SAFETY: _ALL_BROKER_STRIKES,
    Mode.BEYOND: _ALL_BROKER_STRIKES,
    Mode.BRINK: ("freeze_broker", "cut_broker"),
    Mode.DRAINS: ("drain_broker",),
}
"""In the other modes no fault hits a broker alone: a core does not stay healthy without the broker that leads."""
BROKER_SECONDS = (0.3, 0.8, 0.95, 1.1, 1.5, 3.0)
"""For how long, in the times after which a leader without a commit is deposed."""

STEPPING: Final = (Mode.SAFETY, Mode.BEYOND)
"""The modes in which the clock of a real server steps, too; those of the machines step in all modes, because no promise rests on them."""
STEPPED_SHARE: Final = 0.5
"""Of the worlds on a real server, those whose clocks step."""
MOST_STEP: Final = 600.0
"""The seconds by which the clock of a machine steps at most, forwards or back."""


def strikes_of(plan: Plan, numbers: random.Random) -> list[Strike]:
    """Return those of the script, or else drawn ones."""
    if plan.script is not None:
        return [each for each in plan.script if isinstance(each, Strike)]
    targets = range(1 if plan.is_live else 0, plan.supervisors)  # the core is spared
    strikes = list(_draw_strikes(plan, targets, numbers)) if targets and plan.strikes else []
    if plan.is_live:
        strikes += _draw_breaks(plan, targets, numbers)
    strikes += [_draw_lock(plan, numbers) for _ in range(plan.locks)]
    return sorted(strikes, key=lambda each: each.time)


def strikes_of_apps(plan: Plan, numbers: random.Random) -> list[Strike]:
    """Draw the faults of processes that run a worker themselves; the separate ``numbers`` leave all other draws unchanged."""
    names = APP_STRIKES.get(plan.mode, ())
    if plan.script is not None or not plan.apps or not names:
        return []
    strikes = [_draw_strike(time, names, plan, numbers) for time in _times(plan, numbers)]
    if plan.is_live:
        time, ends = numbers.random() * plan.chaos, [numbers.choice(APP_BREAKS) for _ in range(plan.apps)]
        strikes += [Strike(time, name, app, is_for_ever=True) for app, name in enumerate(ends) if name]
    return sorted(strikes, key=lambda each: each.time)


def strikes_of_brokers(plan: Plan, numbers: random.Random) -> list[Strike]:
    """Draw the faults of brokers, also from separate ``numbers``."""
    names = BROKER_STRIKES.get(plan.mode, ())
    if plan.script is not None or plan.brokers is None or not names:
        return []
    strikes, time = list[Strike](), numbers.expovariate(1 / LEADER_TTL)
    while time < plan.chaos:
        name, broker, pick = numbers.choice(names), numbers.randrange(plan.brokers.brokers), numbers.random()
        seconds, is_refusing = LEADER_TTL * numbers.choice(BROKER_SECONDS), numbers.random() < 0.5
        strikes.append(Strike(time, name, broker, pick, seconds, is_refusing=is_refusing))
        time += numbers.expovariate(1 / LEADER_TTL)
    return strikes


def strikes_of_clocks(plan: Plan, numbers: random.Random) -> list[Strike]:
    """Draw the steps of clocks around a real server, from separate ``numbers``: few of the drawn worlds would have one there."""
    if plan.script is not None or plan.brand is not Brand.POSTGRES or numbers.random() >= STEPPED_SHARE:
        return []
    strikes = list[Strike]()
    for name, most in (("step_machine", MOST_STEP), ("step_clock", plan.step)):
        if name == "step_machine" or plan.mode in STEPPING:
            for _ in range(numbers.randint(1, 3)):
                time, pick, seconds = numbers.random() * plan.chaos, numbers.random(), numbers.uniform(-most, most)
                strikes.append(Strike(time, name, 0, pick, seconds))
    return strikes


def _times(plan: Plan, numbers: random.Random) -> list[float]:
    times = [numbers.expovariate(1 / plan.interval)]
    while times[-1] < plan.chaos:
        times.append(times[-1] + numbers.expovariate(1 / plan.interval))
    return times[:-1]


def _draw_strike(time: float, names: tuple[str, ...], plan: Plan, numbers: random.Random) -> Strike:
    name, app = numbers.choice(names), numbers.randrange(plan.apps)
    seconds = _draw_seconds(name, plan, app, numbers)
    return Strike(time, name, app, numbers.random(), seconds, is_refusing=numbers.random() < 0.5)


def operations_of(plan: Plan, numbers: random.Random) -> list[Operation]:
    """Return those of the script, or else drawn ones."""
    if plan.script is not None:
        return [each for each in plan.script if isinstance(each, Operation) and each.name in OPERATIONS]
    return list(_draw_operations(plan, numbers)) if plan.operations else []


def _draw_strikes(plan: Plan, targets: range, numbers: random.Random) -> Iterator[Strike]:
    time = numbers.expovariate(1 / plan.interval)
    while time < plan.chaos:
        name, slot = numbers.choice(plan.strikes), numbers.choice(targets)
        yield Strike(
            time,
            name,
            slot,
            numbers.random(),
            _draw_seconds(name, plan, slot, numbers),
            is_refusing=numbers.random() < 0.5,
        )
        time += numbers.expovariate(1 / plan.interval)


def _draw_lock(plan: Plan, numbers: random.Random) -> Strike:
    time, seconds = numbers.random() * plan.chaos, _draw_seconds("lock_row", plan, 0, numbers)
    return Strike(time, "lock_row", 0, numbers.random(), seconds, is_refusing=numbers.random() < 0.5)


def _draw_breaks(plan: Plan, targets: range, numbers: random.Random) -> Iterator[Strike]:
    """Draw lasting faults: every slot but the core stays dead, frozen, cut off or under faults."""
    time = numbers.random() * plan.chaos
    for slot in targets:
        name = numbers.choice(BREAKS)
        if name:
            yield Strike(time, name, slot, is_refusing=numbers.random() < 0.5, is_for_ever=True)


def _draw_seconds(name: str, plan: Plan, slot: int, numbers: random.Random) -> float:
    """Draw a step's size or a lull's length; else seconds well below the slot's ttl, below it, close to it, or far beyond."""
    is_common = name in ("step_clock", "lull") or name.endswith("_app")
    settings = plan.settings if is_common else plan.settings_of(slot)
    timing, number = settings.timing, numbers.random()
    ttl, margin = timing.ttl, timing.margin
    if name == "step_clock":
        return (2 * number - 1) * plan.step
    if name == "lull":  # so short that a beat arrives in time before and after it, also a beat that hangs at its end
        return (ttl - margin - 2.6 * timing.beat) * number
    if name == "brief_outage":  # some leases outlive it, and others do not
        return plan.settings.timing.ttl * (0.75 + number / 2)
    brink = ttl - margin + number * (2 * margin + settings.recovery_interval)
    if plan.mode is Mode.BRINK:
        return brink
    return numbers.choice([ttl * number / 2, ttl * (1 + number) / 2, brink, ttl * (1 + 1.5 * number)])


def _draw_operations(plan: Plan, numbers: random.Random) -> Iterator[Operation]:
    time = numbers.random() * plan.chaos / 8
    while time < plan.chaos:
        name, pick, queue = numbers.choice(plan.operations), numbers.random(), numbers.choice(QUEUES)
        yield Operation(time, name, pick, queue, delay=numbers.random() * plan.settings.timing.ttl)
        time += numbers.random() * plan.chaos / 8
