"""Every timer rule of ownership in one place.

The owner stops before anybody may judge it: its deadline ``D = sent + ttl - margin`` is taken before
the beat is sent, while the store's expiry is taken after the beat arrived. ``margin`` therefore covers
clock rate error, steps of the store's clock and the time it takes to stop.
"""

import math
from typing import Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds

RECOMMENDED_BEATS = 3
SILENCES_KEPT = 32


class LeaseTiming(Struct, frozen=True):
    """A lease's times in seconds; written on the lease, so that others judge it by its own rules.

    >>> LeaseTiming.of("30s")
    LeaseTiming(ttl=30.0, beat=6.0, margin=5.0)
    """

    ttl: float
    beat: float
    margin: float

    @classmethod
    def of(cls, ttl: Duration = "30s", beat: Duration | None = None, margin: Duration | None = None) -> Self:
        """Beat and margin follow the ttl (a fifth, a sixth) unless given."""
        life = seconds(ttl)
        return cls(life, life / 5 if beat is None else seconds(beat), life / 6 if margin is None else seconds(margin))

    def problems(self) -> list[str]:
        """Broken rules, all together, each naming itself and a remedy."""
        found = []
        if self.ttl <= 0 or self.beat <= 0:
            return [f"ttl={self.ttl:g}s, beat={self.beat:g}s: both must be greater than zero"]
        if self.ttl < 2 * self.beat:
            found.append(f"ttl >= 2 x beat is broken: ttl={self.ttl:g}s, beat={self.beat:g}s; raise ttl or lower beat")
        if self.ttl - self.margin < 2 * self.beat:
            usable = f"ttl - margin={self.ttl - self.margin:g}s, beat={self.beat:g}s"
            found.append(f"ttl - margin >= 2 x beat is broken: {usable}; one lost beat would stop the worker")
        if self.margin < self.beat / 2:
            found.append(
                f"margin >= beat / 2 is broken: margin={self.margin:g}s, beat={self.beat:g}s; raise margin or lower beat"
            )
        return found

    def warnings(self) -> list[str]:
        """Settings that work but leave little room."""
        if self.problems() or self.ttl - self.margin >= RECOMMENDED_BEATS * self.beat:
            return []
        return [
            f"ttl - margin is less than 3 x beat ({self.ttl - self.margin:g}s, {self.beat:g}s): two late beats stop the worker"
        ]

    def owner_deadline(self, sent: float) -> float:
        """When a worker whose last answered beat was sent at ``sent`` starts nothing more and cancels its code."""
        return sent + self.ttl - self.margin

    def guard_deadline(self, sent: float) -> float:
        """When code that did not stop is killed."""
        return sent + self.ttl - self.margin / 2

    def may_judge(self, *, contact: float, now: float) -> bool:
        """Whether somebody in touch with the store since ``contact``, without a gap, may judge this lease.

        After an outage every lease looks expired; its owner gets one beat and the margin to renew it.
        """
        return now - contact >= self.beat + self.margin

    def breaks_contact(self, silence: float) -> bool:
        """Whether this long without an answer from the store breaks contact.

        Contact is proven by our own beats, so it must allow a beat's own period and a slow answer. By
        ``ttl - margin >= 2 x beat`` a lease that is beaten survives every silence that is no gap.
        """
        return silence > self.beat + self.margin / 2

    def is_clock_step(self, *, store: float, own: float) -> bool:
        """Whether the store's clock and ours disagree about how much time has passed."""
        return abs(store - own) > self.margin


class Silence(Struct, frozen=True):
    """A time in which the store answered nothing: how many seconds, and when it ended."""

    seconds: float
    ended: float


class Silences(Struct, frozen=True):
    """The silences of the store that a judge has seen: for each length, when the last one of at least that length ended.

    A silence that is short for one lease has let another one run out, so the lease that is judged says which of them count.

    >>> seen = Silences.since(0.0).then(Silence(9.0, ended=50.0)).then(Silence(2.0, ended=60.0))
    >>> seen.contact_for(LeaseTiming.of("30s")), seen.contact_for(LeaseTiming.of("5s"))
    (50.0, 60.0)
    """

    kept: tuple[Silence, ...]

    @classmethod
    def since(cls, start: float) -> Self:
        """What a judge knows that begins at ``start``: before it, anything may have been."""
        return cls((Silence(math.inf, start),))

    def then(self, silence: Silence) -> Self:
        """One more. It makes all that were no longer, and ended earlier, irrelevant."""
        longer = tuple(each for each in self.kept if each.seconds > silence.seconds)
        if len(longer) < SILENCES_KEPT:
            return type(self)((*longer, silence))
        # Remembered as longer than it was: a lease is then judged later, never sooner.
        return type(self)((*longer[:-1], Silence(longer[-1].seconds, silence.ended)))

    def contact_for(self, lease: LeaseTiming) -> float:
        """Since when the store has answered without a gap, as that lease counts gaps."""
        return max(each.ended for each in self.kept if lease.breaks_contact(each.seconds))


def problems_of_intervals(recovery_interval: float, poll_interval: float) -> list[str]:
    """Broken rules of the loops around the lease."""
    found = []
    if recovery_interval <= 0:
        found.append(f"recovery_interval={recovery_interval:g}s: must be greater than zero, for example '5s'")
    if poll_interval <= 0:
        found.append(f"poll_interval={poll_interval:g}s: must be greater than zero, for example '1s'")
    return found
