"""Decisions about jobs that a worker claims ahead of its free slots: when, how many, and how many of them to start in one write."""

from collections.abc import Iterable

from msgspec import Struct, structs

from holdfast._core.policy import CrashPolicy, Policy

MOST_HELD = 1000
"""The most jobs that a worker has, those with a slot included."""
MOST_STARTED = 500
"""The most jobs that one write starts."""
STARTED_TIME = 0.01
"""Seconds of work that one write starts, counted from its answer: a killed worker charges what ran or was about to run."""
UNSTARTED_LIMIT = 1.0
"""Seconds after which a worker returns jobs that it claimed and did not start."""
LONGEST_TIME = 0.5
"""Seconds: the most work that a worker may claim ahead."""
EXCHANGES = 4
"""The exchanges in which the slots finish what a worker claims ahead of them, if these take longer than the usual time."""
KEYED_TIME = 0.005
"""Seconds of work that a worker claims ahead of jobs with keys: a job of another key waits for no more than these."""
GATHER_TIME = 0.005
"""Seconds for which outcomes are gathered for one exchange while the slots have work ahead: one exchange for each would cost more
than the job."""
GATHERED = 20
"""The outcomes of one exchange after which more of them save nothing."""
_SHORT = 10
_WEIGHT = 0.2


class Throughput(Struct, frozen=True):
    """How fast a worker finishes jobs, and how long its writes take: moving averages.

    ``rate``: jobs finished per second while claims were full. ``exchange`` and ``start``: seconds. ``full_claims``: the latest claims
    that each returned as many jobs as they asked for. ``has_keys``: whether the last of them returned jobs with keys.
    """

    rate: float = 0.0
    exchange: float = 0.0
    start: float = 0.0
    full_claims: int = 0
    has_keys: bool = False

    def settled(self, jobs: int, seconds: float) -> "Throughput":
        """Return the throughput after ``jobs`` were finished in this time."""
        if not (self.full_claims and jobs and seconds > 0):
            return self
        return structs.replace(self, rate=_average(self.rate, jobs / seconds))

    def claimed(self, seconds: float, *, is_full: bool, has_keys: bool = False) -> "Throughput":
        """Return the throughput after an exchange that claimed. One that came back short ends all claiming ahead: there is no backlog."""
        known = structs.replace(self, exchange=_average(self.exchange, seconds), has_keys=has_keys)
        return structs.replace(known, full_claims=self.full_claims + 1) if is_full else known.ended()

    def started(self, seconds: float) -> "Throughput":
        """Return the throughput after a write that started jobs."""
        return structs.replace(self, start=_average(self.start, seconds))

    def ended(self) -> "Throughput":
        """Return the throughput after which nothing is claimed ahead, until the rate is known again."""
        return structs.replace(self, rate=0.0, full_claims=0)

    def jobs_ahead(self, slots: int, time: float, most: int | None) -> int:
        """Return how many jobs to have beside those with a slot: what the slots finish in ``time`` seconds, or none.

        Four exchanges take longer than ``time`` on a slow store: with less work than that ahead, each would move only few jobs. None until
        two claims in a row were full, nor while a handler takes as long as ten exchanges, which then cost little.
        """
        if self.full_claims < 2 or self.rate <= 0 or slots / self.rate >= _SHORT * self.exchange:
            return 0
        time = KEYED_TIME if self.has_keys else min(max(time, EXCHANGES * self.exchange), LONGEST_TIME)
        wanted = min(round(self.rate * time), MOST_HELD - slots)
        return max(0, wanted if most is None else min(wanted, most))

    def jobs_to_start(self, waiting: Iterable[Policy], *, free: int, started: int) -> int:
        """Return how many of the waiting jobs, in their order, one write shall start.

        ``free``: how many of them find a free slot. ``started``: jobs that were started before and wait for a slot. The write covers
        what the slots finish until it is answered and for ``STARTED_TIME`` after that, and at least the free slots. A job that a crash
        would not simply repeat is started only if a slot is free for it.
        """
        wanted = min(max(round(self.rate * (STARTED_TIME + self.start)) - started, free), MOST_STARTED)
        count = 0
        for policy in waiting:
            if count >= wanted or (count >= free and policy.on_crash is not CrashPolicy.RETRY):
                break
            count += 1
        return count

    def gather_time(self, ended: int, ahead: int) -> float:
        """Return the seconds to wait for more outcomes than those that ``ended``: none unless the slots have work ``ahead`` for longer."""
        is_fed = self.rate > 0 and ahead >= 4 * GATHER_TIME * self.rate
        return GATHER_TIME if is_fed and ended < GATHERED else 0.0

    def is_low(self, started: int) -> bool:
        """Return whether so few started jobs wait for a slot that the next write should be sent."""
        return started <= self.rate * (STARTED_TIME / 2 + self.start)


def _average(old: float, new: float) -> float:
    return new if old == 0.0 else old + _WEIGHT * (new - old)


def problems_of_prefetch(prefetch: object, prefetch_time: float) -> list[str]:
    """Return what is wrong with the options of a worker, each with its remedy."""
    found = []
    if prefetch is not None and (type(prefetch) is not int or prefetch < 0):
        found.append(f"prefetch={prefetch!r}: use a number of jobs, 0 to claim none ahead, or None to let the worker decide")
    if not 0 < prefetch_time <= LONGEST_TIME:
        found.append(f"prefetch_time={prefetch_time:g}s: use more than zero and at most {LONGEST_TIME:g}s")
    return found
