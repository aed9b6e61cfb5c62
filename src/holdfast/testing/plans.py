"""What one seed draws: the size of its world and its own mix of faults (swarm: each run leaves most kinds of fault out)."""

import random
from enum import StrEnum
from typing import Literal, assert_never

from msgspec import Struct, structs

from holdfast._core.timing import LeaseTiming
from holdfast.settings import Settings
from holdfast.testing.faults import Fault, Mix
from holdfast.testing.programs import TASKS
from holdfast.testing.verdicts import Rules

STRIKES = (
    "kill_worker", "kill_supervisor", "kill_together", "lose_power", "drain",
    "freeze_worker", "freeze_session", "freeze_supervisor", "freeze_together",
    "cut_worker", "cut_supervisor", "cut_together", "outage", "step_clock",
)  # fmt: skip
WORLDWIDE = ("outage", "step_clock")  # no core would stay healthy
GENTLE = ("quick", "long", "silent", "raising", "answering", "resuming")
FOCUS = ("", "", "enqueue", "exchange", "report", "beat", "end_lease", "held", "expired")
CALLS = 6  # that it takes to bury a worker
OPERATION = 2.0  # one round of store calls on a healthy connection


class Mode(StrEnum):
    """What a world is for."""

    SAFETY = "safety"  # all suffer, then all heals
    LIVENESS = "liveness"  # one supervisor stays healthy, the others break and stay broken
    OUTAGES = "outages"  # nothing is wrong but a store that is away for all at once: nobody may be charged
    BRINK = "brink"  # supervisors come back at the very moment at which their leases are judged
    FORGETFUL = "forgetful"  # the store fails over again and again, and its stand-in has not heard of the newest writes
    BEYOND = "beyond"  # clocks leave their assumptions: only what holds even then is promised


WEIGHTS = {Mode.SAFETY: 43, Mode.LIVENESS: 18, Mode.OUTAGES: 10, Mode.BRINK: 13, Mode.FORGETFUL: 7, Mode.BEYOND: 9}


class Plan(Struct, frozen=True, kw_only=True):
    """A world to be; times in seconds. ``interval``: between two strikes of the nemesis; ``step``: of the store's clock.

    ``script``: what happens to which call of the first worker, supervisor or client; without it all draw from ``mix``.
    """

    mode: Mode
    lease_clock: Literal["kernel", "server"]
    settings: Settings
    supervisors: int
    processes: int
    concurrency: int
    jobs: int
    clients: int
    tasks: tuple[str, ...]
    has_operator: bool
    chaos: float
    patience: float
    interval: float
    strikes: tuple[str, ...]
    mix: Mix
    rate_error: float
    step: float
    script: tuple[str, int, Fault] | None = None

    @property
    def is_live(self) -> bool:
        """Whether a core stays healthy all the time."""
        return self.mode is Mode.LIVENESS

    @property
    def rules(self) -> Rules:
        """What the history of this world must obey."""
        timing, recovery = self.settings.timing, self.settings.recovery_interval
        bound = timing.ttl * 1.001 + self.step + recovery + OPERATION
        if not self.is_live:  # everybody comes back from an outage: amnesty, and the pause of a failing service
            bound += timing.beat + timing.margin + recovery + 1.0
        is_timed = self.mode not in (Mode.BEYOND, Mode.FORGETFUL)
        return Rules(
            step=self.step,
            is_timed=is_timed,
            bound=bound if is_timed else None,
            is_always_calm=self.is_live,
            has_crashes=self.mode is not Mode.OUTAGES,
            local_bound=1.0 + CALLS * self.mix.latency,
            has_kills=self.has_operator or "stuck" in self.tasks,  # he cancels jobs whose code may be deaf
        )


def draw(numbers: random.Random) -> Plan:
    """A plan out of the seed's first numbers."""
    mode = numbers.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    ttl = numbers.choice([6.0, 10.0, 30.0])
    settings = _settings(numbers, ttl)
    strikes = _allowed(mode)
    tasks = GENTLE if mode is Mode.OUTAGES else sorted(TASKS)
    return Plan(
        mode=mode,
        lease_clock="kernel" if numbers.random() < 0.4 else "server",
        settings=settings,
        supervisors=numbers.choice([2, 3] if mode in (Mode.LIVENESS, Mode.BRINK) else [1, 2, 2, 3]),
        processes=numbers.choice([1, 1, 2]),
        concurrency=numbers.choice([1, 3, 10]),
        jobs=numbers.randint(4, 24),
        clients=numbers.randint(1, 2),
        tasks=tuple(numbers.sample(tasks, numbers.randint(2, 6))),
        has_operator=numbers.random() < 0.4,
        chaos=ttl * numbers.uniform(2.5, 5.0),
        patience=20 * ttl,
        interval=ttl * (0.15 if mode is Mode.FORGETFUL else numbers.choice([0.25, 0.5, 1.0])),
        strikes=tuple(numbers.sample(strikes, min(len(strikes), numbers.randint(1, 4)))),
        mix=_mix(numbers, ttl, mode),
        rate_error=0.1 if mode is Mode.BEYOND else 0.001,
        step=5 * ttl if mode is Mode.BEYOND else 0.4 * settings.timing.margin,
    )


def _settings(numbers: random.Random, ttl: float) -> Settings:
    return Settings(
        url="simulated:",
        timing=LeaseTiming.of(ttl),
        recovery_interval=ttl / 5,
        poll_interval=ttl / 5,
        max_block=4 * ttl,
        grace=ttl / 2,
        reconcile=numbers.choice(["process", "process", "off"]),
    )


def _allowed(mode: Mode) -> tuple[str, ...]:
    match mode:
        case Mode.OUTAGES:
            return ("outage",)
        case Mode.BRINK:
            return ("freeze_supervisor", "freeze_together", "cut_supervisor", "cut_together")
        case Mode.FORGETFUL:
            return ("fail_over",)
        case Mode.LIVENESS:
            return tuple(each for each in STRIKES if each not in WORLDWIDE)
        case Mode.SAFETY | Mode.BEYOND:
            return STRIKES
        case _:
            assert_never(mode)


def _mix(numbers: random.Random, ttl: float, mode: Mode) -> Mix:
    latency = 0.01 * ttl * numbers.random() ** 3
    times = Mix(latency=latency, timeout=ttl / 5, slowest=ttl / 3, latest=2 * ttl)
    if mode is Mode.OUTAGES:
        return times
    if mode is Mode.BRINK:  # whoever judges takes its time between looking and acting
        return structs.replace(times, rates={Fault.SLOW: 0.1, Fault.IN_FLIGHT: 0.05}, focus="end_lease")
    shares: dict[Fault, float] = {}
    for fault in list(Fault)[1:]:
        is_crash = fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
        if numbers.random() < 0.5:
            shares[fault] = numbers.random() * (0.05 if is_crash else 1.0)
    heat = numbers.choice([0.03, 0.1, 0.3])
    rates = {fault: heat * share / sum(shares.values()) for fault, share in shares.items()}
    return structs.replace(times, rates=rates, focus=numbers.choice(FOCUS))
