"""Dollars of S3 Standard in us-east-1: the list prices that the design of this store was made with, not asked for since."""

from __future__ import annotations

WRITE, READ = 5.0e-6, 0.4e-6
"""Of one PUT, refused or not, and of one GET."""


def dollars(*, writes: float, reads: float) -> float:
    """Return the price of these numbers of calls."""
    return writes * WRITE + reads * READ
