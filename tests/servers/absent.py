"""A plugin that reports which tests did not exist."""

import pytest

from holdfast.testing.servers.pgbouncer import has_pgbouncer
from holdfast.testing.servers.postgres import postgres_versions


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for the optional servers that are not installed; their tests are not collected."""
    absent = [] if "15" in postgres_versions() else ["PostgreSQL 15"]
    absent += [] if has_pgbouncer() else ["PgBouncer"]
    if absent:
        terminalreporter.write_line(f"not tested with, because not installed: {', '.join(absent)}")
