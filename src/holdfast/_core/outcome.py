"""The outcomes of a handler: a closed set, always matched with ``assert_never``."""

from msgspec import Struct

from holdfast._core.children import Children
from holdfast._core.durations import Duration, seconds
from holdfast._core.job import Failure, Reason
from holdfast._core.policy import ChangePolicy


class Retry(Exception):
    """The outcome to return or raise to run again after ``after`` (the task's backoff if not given); it spends an attempt.

    >>> Retry(after="10s").after
    10.0
    """

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after)
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.after, self.reason)


class Snooze(Exception):
    """The outcome to return or raise to run again after ``for_`` without spending an attempt.

    >>> Snooze(for_="5m").for_
    300.0
    """

    def __init__(self, for_: Duration) -> None:
        super().__init__()
        self.for_ = seconds(for_)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.for_,)


class Cancel(Exception):
    """The outcome to return or raise to end the job as cancelled, with a reason for people to read."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(Exception):
    """The outcome to return or raise to fail the job at once, even if attempts are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


ANSWERS = (Retry, Snooze, Cancel, Fail)
"""What a handler may return instead of a result."""


class Done(Struct, frozen=True):
    """The outcome of a handler that returned: its result as JSON."""

    result: bytes = b"null"


class Raised(Struct, frozen=True):
    """The outcome of a handler that raised; ``is_final``: the task declares that this exception must not be retried."""

    failure: Failure
    is_final: bool = False


class Invalid(Struct, frozen=True):
    """The outcome of a payload that does not fit the handler, or of a result that is not JSON: retrying cannot help."""

    reason: Reason
    failure: Failure


class Suspend(Struct, frozen=True):
    """The outcome of a handler that sleeps or waits: run it again after ``for_`` seconds or, if earlier, once the signal has come that
    it ``awaits``. It spends no attempt."""

    for_: float
    awaits: str | None = None


class WaitFor(Struct, frozen=True):
    """The outcome of a job that waits for its children: run it again once they have ended, or end it then, if it is a gate. It spends no
    attempt."""

    children: Children


class StepsChanged(Struct, frozen=True):
    """The outcome of a handler whose code was changed under its steps. ``then``: what the task declares for it."""

    failure: Failure
    then: ChangePolicy = ChangePolicy.HOLD


Outcome = Done | Retry | Snooze | Cancel | Fail | Raised | Invalid | Suspend | WaitFor | StepsChanged
