"""Named places in a handler; ``holdfast.testing.crashes`` decides what happens there."""

from collections.abc import Callable

_watchers: list[Callable[[str], None]] = []


def point(name: str) -> None:
    """Name this place of a handler, so that a test can kill or freeze the job here. Anywhere else it does nothing, in some 50 ns.

    >>> async def charge(job: Job, order: int) -> None:  # doctest: +SKIP
    ...     await bank.charge(order, idempotency_key=str(job.id))
    ...     point("after charge")
    """
    for reached in _watchers:
        reached(name)


def watch(reached: Callable[[str], None]) -> None:
    """Call ``reached`` at every point of this process."""
    _watchers.append(reached)
