"""Whether a due job waits much longer than the turns of its lane explain."""

from shlex import quote

from msgspec import Struct

from holdfast._core.cause import Cause, Code

SLACK = 2


class LaneFacts(Struct, frozen=True, kw_only=True):
    """What is known of the lane of a waiting job, a (queue, key), and of the others.

    ``ahead``: jobs of its lane that are served before it. ``lanes``: lanes that have due jobs. ``overtakers``: jobs of other lanes, of its
    priority or a later one, that workers took since it was due, as far as counted. ``weight``: that of its queue.
    """

    queue: str
    key: str = ""
    ahead: int = 0
    lanes: int = 1
    overtakers: int = 0
    weight: int = 1

    @property
    def name(self) -> str:
        """The lane as people name it."""
        return f"queue {self.queue}, key {self.key!r}" if self.key else f"queue {self.queue}"

    def is_starved(self, slots: int) -> bool:
        """Return whether more jobs overtook it than turns explain, for workers with this number of slots.

        In each turn of its lane each other lane has one, and a claim fills all slots of a worker before the next turn.
        """
        return self.overtakers > SLACK * (slots + (self.ahead + 1) * self.lanes)


def lane_causes(facts: LaneFacts | None, slots: int) -> tuple[Cause, ...]:
    """Return the cause that a lane is served less than its share; empty if it is not."""
    if facts is None or not facts.is_starved(slots):
        return ()
    return (Cause(Code.AT_CAPACITY, starved(facts), remedy_of(facts)),)


def starved(facts: LaneFacts) -> str:
    """Return the message about a lane that waits for longer than its share."""
    before = f"{facts.overtakers} jobs of other lanes started since it was due, {facts.ahead} jobs of its own are before it"
    return f"its lane ({facts.name}) waits longer than its share, as one of {facts.lanes} lanes: {before}"


def remedy_of(facts: LaneFacts) -> str:
    """Return what gives a lane more turns."""
    queue = quote(facts.queue)
    worker, more = f"`holdfast worker module:app --queues {queue}`", f"`holdfast queues set {queue} --weight {facts.weight + 1}`"
    return f"give its queue a worker that serves no other one: {worker}, or longer turns: {more}"


def position(facts: LaneFacts | None) -> str:
    """Return the place of a job among others that wait, for the end of a message."""
    if facts is None:
        return ""
    return f"; {facts.ahead} jobs of its lane ({facts.name}) are before it, and {facts.lanes} lanes take turns"
