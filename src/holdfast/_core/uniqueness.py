"""How long a job holds its unique key.

A key that is held until the job finishes prevents two runs at once. One that is held for a period prevents two runs in that period.
"""

from datetime import timedelta
from typing import Literal

from msgspec import Struct

UniqueUntil = Literal["finished", "started"]


class Uniqueness(Struct, frozen=True, omit_defaults=True, gc=False):
    """The terms on which a job holds its unique key.

    ``seconds``: since its enqueue, although it has completed. ``until_started``: it frees the key when a worker first claims it.
    ``is_freed``: its time was over, and another job has taken the key.
    """

    seconds: float | None = None
    until_started: bool = False
    is_freed: bool = False

    @property
    def period(self) -> timedelta | None:
        """The time for which the key is held, in whole microseconds as stores count them."""
        return None if self.seconds is None else timedelta(microseconds=round(self.seconds * 1e6))

    @property
    def until(self) -> UniqueUntil:
        """The word by which your code names it."""
        return "started" if self.until_started else "finished"


UNTIL_FINISHED = Uniqueness()
