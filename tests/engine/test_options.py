"""What callers may say about one job is checked at once, all problems together."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast._engine.options import Options
from holdfast.errors import ConfigurationError


def test_options_are_normalised() -> None:
    when = datetime(2030, 1, 1, tzinfo=UTC)
    assert Options.of() == Options()
    assert Options.of(delay=timedelta(minutes=1), tags=["a"]) == Options(delay=60.0, tags=("a",))
    assert Options.of(queue="q", priority=-5, run_at=when) == Options(queue="q", priority=-5, run_at=when)


def test_every_problem_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options.of(queue="a b", priority=1.5, delay="soon", run_at=datetime(2030, 1, 1), tags="a")  # type: ignore[arg-type]
    starts = [problem.split("=")[0].split(":")[0] for problem in caught.value.problems]
    assert starts == ["queue", "priority", "delay", "delay and run_at", "run_at", "tags"]
