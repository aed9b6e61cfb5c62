"""What one seed draws: the size of its world and its own mix of faults (swarm: each run leaves most kinds of fault out)."""

import random
from typing import Literal

from msgspec import Struct

from holdfast._core.timing import LeaseTiming
from holdfast.settings import Settings
from holdfast.testing.checker import Rules
from holdfast.testing.faults import Fault, Mix
from holdfast.testing.programs import TASKS

STRIKES = (
    "kill_worker", "kill_supervisor", "kill_together", "lose_power", "drain",
    "freeze_worker", "freeze_session", "freeze_supervisor", "freeze_together",
    "cut_worker", "cut_supervisor", "cut_together", "outage", "step_clock",
)  # fmt: skip
OPERATION = 2.0  # one round of store calls on a healthy connection


class Plan(Struct, frozen=True, kw_only=True):
    """A world to be. ``is_live``: one supervisor stays healthy while the others stay broken; else all suffer, then all heals.

    ``is_timed=False``: clocks leave their assumptions, and only what holds even then is promised.
    """

    is_live: bool
    is_timed: bool
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

    @property
    def rules(self) -> Rules:
        """What the history of this world must obey."""
        timing, recovery = self.settings.timing, self.settings.recovery_interval
        bound = timing.ttl * 1.001 + self.step + recovery + OPERATION
        if not self.is_live:  # everybody comes back from an outage: amnesty, and the pause of a failing service
            bound += timing.beat + timing.margin + recovery + 1.0
        return Rules(step=self.step, is_timed=self.is_timed, bound=bound if self.is_timed else None, is_always_calm=self.is_live)


def draw(numbers: random.Random) -> Plan:
    """A plan out of the seed's first numbers."""
    is_live = numbers.random() < 0.3
    is_timed = is_live or numbers.random() < 0.85
    ttl = numbers.choice([6.0, 10.0, 30.0])
    timing = LeaseTiming.of(ttl)
    supervisors = numbers.randint(2, 3) if is_live else numbers.randint(1, 3)
    lease_clock: Literal["kernel", "server"] = "kernel" if numbers.random() < 0.4 else "server"
    kinds = [fault for fault in Fault if fault is not Fault.NONE and numbers.random() < 0.5]
    heat = numbers.choice([0.01, 0.03, 0.1])
    rates = {fault: heat * numbers.random() * (0.2 if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER) else 1) for fault in kinds}
    chaos = ttl * numbers.uniform(2.0, 5.0)
    return Plan(
        is_live=is_live,
        is_timed=is_timed,
        lease_clock=lease_clock,
        settings=Settings(
            url="simulated:",
            timing=timing,
            recovery_interval=ttl / 5,
            poll_interval=ttl / 10,
            max_block=4 * ttl,
            grace=ttl / 2,
            reconcile=numbers.choice(["process", "process", "off"]),  # type: ignore[arg-type]
        ),
        supervisors=supervisors,
        processes=numbers.randint(1, 2),
        concurrency=numbers.choice([1, 3, 10]),
        jobs=numbers.randint(4, 24),
        clients=numbers.randint(1, 2),
        tasks=tuple(numbers.sample(sorted(TASKS), numbers.randint(2, 6))),
        has_operator=numbers.random() < 0.4,
        chaos=chaos,
        patience=20 * ttl,
        interval=ttl * numbers.choice([0.3, 0.7, 1.5]),
        strikes=tuple(each for each in STRIKES if numbers.random() < 0.35),
        mix=Mix(rates=rates, latency=0.01 * ttl * numbers.random() ** 3, timeout=ttl / 5, slowest=ttl / 3, latest=2 * ttl),
        rate_error=0.001 if is_timed else 0.1,
        step=0.4 * timing.margin if is_timed else 5 * ttl,
    )
