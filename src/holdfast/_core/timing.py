"""All timer rules of ownership.

The owner stops before any supervisor may judge it. Its deadline ``D = sent + ttl - margin`` is taken before the beat is sent, while the
store's expiry is taken after the beat arrived. So ``margin`` covers clock rate error, steps of the store's clock and the time that
stopping takes.
"""

import math
from typing import Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds

RECOMMENDED_BEATS = 3
SILENCES_KEPT = 32


class LeaseTiming(Struct, frozen=True):
    """A lease's times in seconds; written on the lease, so that supervisors judge it by its own rules.

    >>> LeaseTiming.of("30s")
    LeaseTiming(ttl=30.0, beat=6.0, margin=5.0)
    """

    ttl: float
    beat: float
    margin: float

    @classmethod
    def of(cls, ttl: Duration = "30s", beat: Duration | None = None, margin: Duration | None = None) -> Self:
        """Return a timing; unless given, the beat is a fifth of the ttl and the margin a sixth."""
        life = seconds(ttl)
        return cls(life, life / 5 if beat is None else seconds(beat), life / 6 if margin is None else seconds(margin))

    def problems(self) -> list[str]:
        """Return all broken rules, each with its name and a remedy."""
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

    def problems_of_claims(self, claimed_within: float | None) -> list[str]:
        """Return the broken rule of the time for which a worker may leave claimed jobs unstarted; ``None``: two beats."""
        if claimed_within is None or claimed_within >= 2 * self.beat:
            return []
        values = f"claimed_within={claimed_within:g}s, beat={self.beat:g}s"
        return [f"claimed_within >= 2 x beat is broken: {values}; raise claimed_within or lower beat"]

    def warnings(self) -> list[str]:
        """Return warnings about settings that work but tolerate few late beats."""
        if self.problems() or self.ttl - self.margin >= RECOMMENDED_BEATS * self.beat:
            return []
        return [
            f"ttl - margin is less than 3 x beat ({self.ttl - self.margin:g}s, {self.beat:g}s): two late beats stop the worker"
        ]

    def owner_deadline(self, sent: float) -> float:
        """Return when a worker whose last answered beat was sent at ``sent`` stops starting jobs and cancels its code."""
        return sent + self.ttl - self.margin

    def guard_deadline(self, sent: float) -> float:
        """Return when the guard kills code that did not stop."""
        return sent + self.ttl - self.margin / 2

    def may_judge(self, *, contact: float, now: float) -> bool:
        """Return whether a supervisor with unbroken contact to the store since ``contact`` may judge this lease.

        After an outage every lease looks expired; its owner gets one beat and the margin to renew it.
        """
        return now - contact >= self.beat + self.margin

    def breaks_contact(self, silence: float) -> bool:
        """Return whether this many seconds without an answer from the store break contact.

        The supervisor's own beats prove contact, so it must allow one period of beats and a slow answer. By ``ttl - margin >= 2 x beat``
        a lease that is renewed survives every silence that does not break contact.
        """
        return silence > self.beat + self.margin / 2

    def is_clock_step(self, *, store: float, own: float) -> bool:
        """Return whether the store's clock and this process's disagree about how much time has passed."""
        return abs(store - own) > self.margin


class Silence(Struct, frozen=True):
    """A period in which the store did not answer: its seconds, and when it ended."""

    seconds: float
    ended: float


class Silences(Struct, frozen=True):
    """The silences of the store that a supervisor has seen: for each length, when the last one of at least that length ended.

    A silence that is short for one lease has let another one run out. So the timing of the judged lease decides which of them count.

    >>> seen = Silences.since(0.0).then(Silence(9.0, ended=50.0)).then(Silence(2.0, ended=60.0))
    >>> seen.contact_for(LeaseTiming.of("30s")), seen.contact_for(LeaseTiming.of("5s"))
    (50.0, 60.0)
    """

    kept: tuple[Silence, ...]

    @classmethod
    def since(cls, start: float) -> Self:
        """Return the silences for a supervisor that starts at ``start``: the time before counts as one endless silence."""
        return cls((Silence(math.inf, start),))

    def then(self, silence: Silence) -> Self:
        """Return the silences with one more; it replaces all earlier ones that were not longer."""
        longer = tuple(each for each in self.kept if each.seconds > silence.seconds)
        if len(longer) < SILENCES_KEPT:
            return type(self)((*longer, silence))
        # Keep it as longer than it was: a lease is then judged later, never sooner.
        return type(self)((*longer[:-1], Silence(longer[-1].seconds, silence.ended)))

    def contact_for(self, lease: LeaseTiming) -> float:
        """Return since when the store has answered without breaking contact, by the timing of that lease."""
        return max(each.ended for each in self.kept if lease.breaks_contact(each.seconds))


def problems_of_intervals(recovery_interval: float, poll_interval: float) -> list[str]:
    """Return the broken rules of the recovery and poll intervals."""
    found = []
    if recovery_interval <= 0:
        found.append(f"recovery_interval={recovery_interval:g}s: must be greater than zero, for example '5s'")
    if poll_interval <= 0:
        found.append(f"poll_interval={poll_interval:g}s: must be greater than zero, for example '1s'")
    return found
