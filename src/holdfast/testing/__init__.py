"""Tests for code that uses Holdfast; ``crash_at`` and ``freeze_at`` kill or freeze a job at a ``point`` of its handler.

The rest is for Holdfast's own tests and for stores and transports of others.
"""

from typing import TYPE_CHECKING

from holdfast.testing.points import point

if TYPE_CHECKING:
    from holdfast.testing.crashes import Recovery, crash_at, freeze_at

__all__ = ["Recovery", "crash_at", "freeze_at", "point"]


def __getattr__(name: str) -> object:
    """Load a function when it is asked for, because production code imports ``point`` from here."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.testing import crashes  # noqa: PLC0415 - see above

    return getattr(crashes, name)
