"""Whether workers live: the command waits for their supervisors' beats, so it sends nothing."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast._core.answers import LeaseView

LOOK_EVERY = 0.1


class PingReply(Struct, frozen=True):
    """The answer of one worker. ``seconds``: until its next beat was seen, or for how long none was."""

    worker: str
    is_alive: bool
    seconds: float


def ask(
    read: Callable[[], Sequence[LeaseView]],
    names: Sequence[str] = (),
    *,
    now: Callable[[], float],
    pause: Callable[[float], None],
) -> list[PingReply]:
    """Wait for an answer of each worker there is at the start, oldest first. A lease that ends in the meantime is an answer too.

    ``names``: prefixes of the names of those to ask; all workers if empty.
    """
    asked = now()
    waiting = {lease.id: lease for lease in read() if not names or lease.worker.startswith(tuple(names))}
    order, answers = tuple(waiting), {}
    while waiting:
        pause(LOOK_EVERY)
        seen = {lease.id: lease for lease in read()}
        passed = now() - asked
        for id, lease in tuple(waiting.items()):
            has_answered = id not in seen or seen[id].seen != lease.seen
            if has_answered or passed > lease.timing.beat + lease.timing.margin:
                answers[id] = PingReply(lease.worker, has_answered, round(passed, 3))
                del waiting[id]
    return [answers[id] for id in order]
