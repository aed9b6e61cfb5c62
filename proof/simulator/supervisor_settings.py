"""The setup of each supervisor of a world: its timing, its pace of recovery, its release.

A lease keeps the timing of the supervisor that opened it, and any other supervisor may have to judge it. A world in which all
timings are equal cannot show a supervisor that judges by its own timing instead of that of the lease.
"""

import random

from msgspec import Struct, structs

from holdfast._core.timing import LeaseTiming
from holdfast.settings import Settings

LONGER = (1.0, 1.0, 1.5, 2.0, 3.0, 5.0)  # than the shortest ttl of the world
BEATS = (0.15, 0.2, 0.2, 0.25, 0.35)  # of a ttl
MARGINS = (1 / 8, 1 / 6, 1 / 6, 1 / 4)  # of a ttl
RECOVERIES = (0.1, 0.2, 0.4)  # of a ttl
APPS = 0.05  # of the worlds have embedded workers


class Outfit(Struct, frozen=True):
    """The setup of one supervisor and its workers. ``is_new``: they have the newest release."""

    settings: Settings
    is_new: bool = True


def draw_outfits(numbers: random.Random, settings: Settings, supervisors: int, *, is_gentle: bool) -> tuple[Outfit, ...]:
    """Draw a setup for each supervisor. One of them has the given settings, and no other ttl or margin is shorter.

    The first has the newest release: where the first alone stays healthy, a job of a new task must still find a worker.

    ``is_gentle``: beats and margins keep their usual share of the ttl, as silences of a stated length assume.
    """
    drawn = [settings, *(_other(numbers, settings, is_gentle=is_gentle) for _ in range(1, supervisors))]
    numbers.shuffle(drawn)
    return tuple(Outfit(each, numbers.random() < 0.5 or place == 0) for place, each in enumerate(drawn))


def draw_apps(numbers: random.Random) -> int:
    """Draw how many processes of users run a worker beside the supervisors: in most worlds none."""
    return numbers.choice((1, 1, 2)) if numbers.random() < APPS else 0


def _other(numbers: random.Random, settings: Settings, *, is_gentle: bool) -> Settings:
    ttl = settings.timing.ttl * numbers.choice(LONGER)
    beat, margin, recovery = (ttl * numbers.choice(shares) for shares in (BEATS, MARGINS, RECOVERIES))
    timing = LeaseTiming.of(ttl, beat, max(margin, beat / 2, settings.timing.margin))
    return structs.replace(
        settings,
        timing=LeaseTiming.of(ttl) if is_gentle or timing.problems() else timing,
        recovery_interval=recovery,
        max_block=4 * ttl,
        grace=ttl / 2,
    )


def draw_settings(numbers: random.Random, ttl: float, *, poll: float) -> Settings:
    """Draw the settings of a world; supervisors that differ have others."""
    return Settings(
        url="simulated:",
        timing=LeaseTiming.of(ttl),
        recovery_interval=ttl / 5,
        poll_interval=poll,
        max_block=4 * ttl,
        grace=ttl / 2,
        reconcile=numbers.choice(["process", "process", "off"]),
    )
