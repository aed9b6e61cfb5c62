"""What tests of real processes share."""

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A fresh store of each kind; empty is a fleet's own file."""
    return request.getfixturevalue("postgres_dsn") if request.param == "postgres" else ""
