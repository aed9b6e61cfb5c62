"""What a handler can answer: a closed set, matched with ``assert_never`` wherever it is read."""

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.job import Failure, Reason


class Retry(Exception):
    """Return or raise it to run again after ``after`` (the task's backoff if not given); spends an attempt.

    >>> Retry(after="10s").after
    10.0
    """

    def __init__(self, after: Duration | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.after = None if after is None else seconds(after)
        self.reason = reason


class Snooze(Exception):
    """Return or raise it to come back after ``for_`` without spending an attempt.

    >>> Snooze(for_="5m").for_
    300.0
    """

    def __init__(self, for_: Duration) -> None:
        super().__init__()
        self.for_ = seconds(for_)


class Cancel(Exception):
    """Return or raise it to end the job as cancelled, with a reason people will read."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Fail(Exception):
    """Return or raise it to fail for good, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Done(Struct, frozen=True):
    """The handler returned: its result as JSON."""

    result: bytes = b"null"


class Raised(Struct, frozen=True):
    """The handler raised; ``is_final`` when the task says that retrying this exception is pointless."""

    failure: Failure
    is_final: bool = False


class Invalid(Struct, frozen=True):
    """The payload did not fit the handler, or the result is no JSON: retrying cannot help."""

    reason: Reason
    failure: Failure


Outcome = Done | Retry | Snooze | Cancel | Fail | Raised | Invalid
