"""What the command line says of a supervisor."""

from msgspec import Struct


class SupervisorOptions(Struct, frozen=True, kw_only=True):
    """How many workers, and when to end. ``grace=None``: what the app says.

    ``isolates``: last tries get a worker each. ``tells``: what happens here is told to the subscribers in a worker.
    """

    processes: int = 1
    isolates: bool = True
    tells: bool = True
    until_empty: bool = False
    grace: float | None = None
