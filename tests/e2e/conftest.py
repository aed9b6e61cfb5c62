"""What tests of real processes share."""

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a new store of each kind; an empty URL stands for the fleet's own file."""
    return request.getfixturevalue("postgres_dsn") if request.param == "postgres" else ""
