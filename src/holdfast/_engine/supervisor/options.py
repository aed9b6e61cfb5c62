"""The options of a supervisor that the command line sets."""

from msgspec import Struct


class SupervisorOptions(Struct, frozen=True, kw_only=True):
    """How many workers to run, and when to end. ``grace=None``: the app's setting.

    ``isolates``: each isolated attempt gets a separate worker. ``tells``: the supervisor's events go to subscribers in a worker.
    ``has_history``: what workers do is written to the store once a minute, unless the app's ``beat_history`` is 0.
    """

    processes: int = 1
    isolates: bool = True
    tells: bool = True
    until_empty: bool = False
    has_history: bool = False
    grace: float | None = None
