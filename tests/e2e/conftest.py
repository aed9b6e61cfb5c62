"""What tests of real processes share."""

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.prove)])
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a new store of each kind; an empty URL stands for the fleet's own file.

    What a test shows of processes it shows on a file with every push; a test for which the store matters takes ``ON_BOTH``.
    """
    return request.getfixturevalue("postgres_dsn") if request.param == "postgres" else ""
