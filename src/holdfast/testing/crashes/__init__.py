"""Kill or freeze a job of yours at a point of its handler, in real processes, and assert that it recovers once.

    from holdfast.testing import crash_at

    def test_nobody_is_charged_twice():
        recovery = crash_at("after charge", charge.bind(order=7))
        assert recovery.count("charged") == 1

No fixture and no plugin: they are functions that raise ``AssertionError``, for any test runner. Each has a separate store, a
SQLite file in a temporary folder, and leaves no process behind.
"""

from holdfast.testing.crashes.recovery import Recovery
from holdfast.testing.crashes.trials import crash_at, freeze_at
from holdfast.testing.points import point

__all__ = ["Recovery", "crash_at", "freeze_at", "point"]
