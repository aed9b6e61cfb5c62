"""Where stories of rows are played."""

from pathlib import Path

import pytest

from tests.rows.databases import Ground, file_in


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """Make a database without any table."""
    return file_in(tmp_path) if request.param == "sqlite" else Ground("postgres", request.getfixturevalue("postgres_dsn"))


@pytest.fixture
def postgres(postgres_dsn: str) -> Ground:
    return Ground("postgres", postgres_dsn)


@pytest.fixture
def sqlite(tmp_path: Path) -> Ground:
    return file_in(tmp_path)
