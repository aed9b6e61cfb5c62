"""A store's URL: what the driver receives, what is shown, and what is refused without the password in the error."""

import pytest

from holdfast._core.postgres_url import PostgresUrl, problems_of_location

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "passed"),
    [
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgres:///shop?host=/run/postgresql", "postgres:///shop?host=%2Frun%2Fpostgresql"),
        (
            f"postgresql://jobs:{SECRET}@[::1]:5433/shop?sslmode=require",
            f"postgresql://jobs:{SECRET}@[::1]:5433/shop?sslmode=require",
        ),
        ("postgresql://db/shop?pooler=transaction&connect_timeout=3&keepalives_idle=5", "postgresql://db/shop"),
        ("postgresql://db/shop?options=-c%20work_mem%3D8MB", "postgresql://db/shop?options=-c%20work_mem%3D8MB"),
        ("postgresql://one,two:5433/shop", "postgresql://one,two:5433/shop?target_session_attrs=primary"),
        ("postgresql:///shop?host=one,two", "postgresql:///shop?host=one%2Ctwo&target_session_attrs=primary"),
        ("postgresql://one,two/shop?target_session_attrs=any", "postgresql://one,two/shop?target_session_attrs=any"),
    ],
)
def test_the_driver_receives_only_options_that_it_knows(url: str, passed: str) -> None:
    assert problems_of_location(url) == []
    assert PostgresUrl.of(url).url == passed


def test_options_of_holdfast_are_applied_and_the_public_form_has_no_secret() -> None:
    location = PostgresUrl.of(f"postgresql://jobs:{SECRET}@db/shop?connect_timeout=3&password={SECRET}&pooler=transaction")
    assert (location.connect_timeout, location.is_pooled, location.public) == (3.0, True, "postgresql://jobs@db/shop?…")
    assert PostgresUrl.of("postgresql://db/shop", "transaction").is_pooled
    assert not PostgresUrl.of("postgresql://db/shop").is_pooled
    assert (
        PostgresUrl.of("postgresql://db/shop?connect_timeout=0").connect_timeout
        == PostgresUrl.of("postgresql://db/shop").connect_timeout
    )


@pytest.mark.parametrize(
    ("url", "word"),
    [
        (f"postgresql://jobs:{SECRET}@db:port/shop", "port"),
        (f"postgresql://jobs:{SECRET}@db:0/shop", "port"),
        (f"postgresql://jobs:{SECRET}@db:/shop", "port"),
        (f"postgresql://jobs:{SECRET}@one,two:99999/shop", "port"),
        (f"postgresql:jobs:{SECRET}", "write postgresql://"),
        (f"postgresql://jobs:{SECRET}@db/shop#part", "write postgresql://"),
        (f"postgresql://[jobs:{SECRET}", "cannot be read"),
        (f"postgresql://jobs:a/{SECRET}@db/shop", "%2F"),
        (f"postgresql://jobs:a?{SECRET}@db/shop", "%3F"),
        (f"postgresql://jobs:a#{SECRET}@db/shop", "%23"),
        (f"postgresql://jobs:a@{SECRET}@db/shop", "%40"),
        (f"postgresql://jobs:{SECRET}@db/shop?sslmode", "name=value"),
        (f"postgresql://jobs:{SECRET}@db/shop?connect_timeout=soon", "connect_timeout"),
        (f"postgresql://jobs:{SECRET}@db/shop?pooler=session", "pooler"),
    ],
)
def test_a_url_that_cannot_work_is_refused_by_name_and_without_the_password(url: str, word: str) -> None:
    (problem,) = problems_of_location(url)
    assert word in problem
    assert SECRET not in problem


def test_all_problems_are_named_at_once() -> None:
    assert len(problems_of_location("postgresql://one:x,two:y/shop?pooler=z")) == 3
