"""Refuses commands that start workers on systems where none can run, before anything else is tried."""

import sys


def require_workers() -> None:
    """Raise ``ConfigurationError`` with the remedy where `holdfast worker` cannot run."""
    from holdfast._core.platforms import refusal_of_worker
    from holdfast.errors import ConfigurationError

    if (refusal := refusal_of_worker(sys.platform)) is not None:
        raise ConfigurationError([refusal])
