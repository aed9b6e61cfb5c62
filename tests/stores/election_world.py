"""Two brokers, a lease and a head, in every order of what can happen to them; time passes only between steps."""

from collections.abc import Callable, Iterator
from copy import copy
from uuid import UUID

from msgspec import Struct

from holdfast.stores.objects.election import Election, Phase

TTL, OWNED = 30.0, 25.0
"""The seconds without a beat after which a judge ends a lease, and for which its owner goes on after it has sent one."""
BROKERS = (UUID(int=1), UUID(int=2))
WAITS = (3.0, 11.0, 30.0)
FATES = ("lands", "slow", "lost", "cut", "late")


class Head(Struct, frozen=True):
    """What a head says of the leadership."""

    version: int = 0
    epoch: int = 0
    broker: UUID | None = None
    is_ended: bool = False


class Broker:
    """One broker: its election, the head that it has read, and since when it has not heard of the lease."""

    def __init__(self, election: Election) -> None:
        self.election = election
        self.read: Head | None = None
        self.must_look = True
        self.since = 0.0

    def copied(self) -> "Broker":
        """Return a broker that goes on by itself."""
        other = copy(self)
        other.election = copy(self.election)
        other.election._silence = copy(self.election._silence)
        return other

    def key(self, now: float) -> tuple[object, ...]:
        """Return what decides about its future."""
        election, silence = self.election, self.election._silence
        until = max(election._until - now, -1.0)
        seen = (silence._version, min(now - silence._since, 12.0))
        own = (election.phase, election._epoch, until, election._is_in_doubt, getattr(election, "insists", None))
        return (*own, seen, self.read, self.must_look, min(now - self.since, TTL))


class World:
    """All of it at one moment. ``keeps_sightings``: a mutant whose new leaders go on from what they saw while they followed."""

    def __init__(self, make: Callable[[UUID], Election], *, keeps_sightings: bool = False) -> None:
        self.now, self.head = 0.0, Head()
        self.brokers = [Broker(make(me)) for me in BROKERS]
        self.late = tuple[tuple[int, Head], ...]()
        self.owned_until = 0.0
        self.keeps_sightings = keeps_sightings

    def copied(self) -> "World":
        """Return a world that goes on by itself."""
        other = copy(self)
        other.brokers = [each.copied() for each in self.brokers]
        return other

    def key(self) -> tuple[object, ...]:
        """Return the same for worlds with the same futures."""
        return (self.head, *(each.key(self.now) for each in self.brokers), self.late, max(self.owned_until - self.now, -1.0))

    def steps(self) -> Iterator[Callable[["World"], None]]:
        """Return what can happen next."""
        for seconds in WAITS:
            yield lambda world, seconds=seconds: world.wait(seconds)  # type: ignore[misc]
        if self.late:
            yield World.arrive
        for number, broker in enumerate(self.brokers):
            yield lambda world, number=number: world.look(number)  # type: ignore[misc]
            if broker.election.may_answer(self.now):
                yield lambda world, number=number: world.beat(number)  # type: ignore[misc]
            if not broker.must_look and broker.election.phase is not Phase.FOLLOW:
                for fate in FATES:
                    yield lambda world, number=number, fate=fate: world.put(number, fate)  # type: ignore[misc]

    def wait(self, seconds: float) -> None:
        """Let time pass, in which all processes stand still."""
        self.now += seconds

    def look(self, number: int) -> None:
        """Let a broker read the head."""
        broker, head = self.brokers[number], self.head
        if broker.read is None or broker.read.epoch != head.epoch:
            self._forget(broker)
        broker.read, broker.must_look = head, False
        broker.election.observe(head.version, head.epoch, head.broker, asked=self.now, received=self.now)

    def beat(self, number: int) -> None:
        """Let a broker answer a beat from memory."""
        self.brokers[number].since = self.now
        self.owned_until = self.now + OWNED

    def put(self, number: int, fate: str) -> None:
        """Let a broker register, or make a commit: one that ends the lease, if it may."""
        broker, sent = self.brokers[number], self.now
        election, base = broker.election, broker.read
        assert base is not None
        if election.has_lapsed(self.now):
            self._forget(broker)
        is_new = not election.leads
        may_end = not is_new and self.now - broker.since > TTL
        new = Head(base.version + 1, base.epoch + is_new, election._me, base.is_ended or may_end)
        if fate == "late":
            self.late = (*self.late, (base.version, new))
        has_landed = fate not in ("cut", "late") and self._apply(base.version, new)
        if fate == "slow":
            self.now += 5.0
        if has_landed and fate != "lost":
            if is_new:
                self._forget(broker)
            broker.read = new
            election.land(new.version, new.epoch, sent=sent)
            return
        broker.must_look = True
        election.doubt()
        if is_new:
            election.lose()

    def arrive(self) -> None:
        """Let the oldest late write arrive."""
        (base, new), *rest = self.late
        self.late = tuple(rest)
        self._apply(base, new)

    def broken(self) -> str | None:
        """Return which promise is broken now."""
        for broker in self.brokers:
            leads = (self.head.epoch, self.head.broker) == (broker.election._epoch, broker.election._me)
            if broker.election.may_answer(self.now) and not leads:
                return "O3: a deposed broker answers"
        if self.head.is_ended and self.now < self.owned_until:
            return "S5, O4: a lease was ended while its owner goes on"
        return None

    def _apply(self, base: int, new: Head) -> bool:
        if base != self.head.version or self.head.is_ended:
            return False
        self.head = new
        return True

    def _forget(self, broker: Broker) -> None:
        if not self.keeps_sightings:
            broker.since = self.now


def explore(world: World, depth: int) -> tuple[int, str | None]:
    """Go through all orders of that many steps; return how many worlds there are, and the first promise that one breaks."""
    seen, worlds = set[object](), [world]
    for _ in range(depth):
        following = list[World]()
        for each in worlds:
            for step in each.steps():
                other = each.copied()
                step(other)
                if (found := other.broken()) is not None:
                    return len(seen), found
                if (key := other.key()) not in seen:
                    seen.add(key)
                    following.append(other)
        worlds = following
    return len(seen), None


def led(make: Callable[[UUID], Election], *, keeps_sightings: bool = False) -> World:
    """Return a world in which the first broker leads and the second one follows."""
    world = World(make, keeps_sightings=keeps_sightings)
    world.look(0)
    world.put(0, "lands")
    world.look(1)
    return world
