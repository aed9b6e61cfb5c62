"""Whether workers live: their supervisors' beats are waited for, so nothing has to be sent to anybody."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from holdfast._core.answers import LeaseView

LOOK_EVERY = 0.1


class PingReply(Struct, frozen=True):
    """What one worker answered. ``seconds``: until its next beat was seen, or for how long none was."""

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
    """An answer for each worker there is at the start, oldest first. One whose lease ends meanwhile has answered too: goodbye.

    ``names``: beginnings of the names of those to ask, everybody if empty.
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
