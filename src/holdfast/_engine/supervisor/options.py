"""The options of a supervisor that the command line sets."""

from msgspec import Struct


class SupervisorOptions(Struct, frozen=True, kw_only=True):
    """How many workers to run, and when to end. ``grace=None``: the app's setting.

    ``isolates``: each isolated attempt gets a separate worker. ``tells``: the supervisor's events go to subscribers in a worker.
    """

    processes: int = 1
    isolates: bool = True
    tells: bool = True
    until_empty: bool = False
    grace: float | None = None
