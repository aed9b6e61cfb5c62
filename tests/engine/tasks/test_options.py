"""The options of one job are checked in the call; the error names all problems together."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from holdfast import AtLeast
from holdfast._core.dependencies import After
from holdfast._core.policy import Policy
from holdfast._engine.tasks.options import Options
from holdfast.errors import ConfigurationError

WHEN = datetime(2030, 1, 1, tzinfo=UTC)
EAST = timezone(timedelta(hours=14))


def test_options_are_normalised() -> None:
    assert Options.of() == Options()
    assert Options.of(delay=timedelta(minutes=1), tags=["a"]) == Options(delay=60.0, tags=("a",))
    assert Options.of(queue="q", priority=-5, run_at=WHEN) == Options(queue="q", priority=-5, run_at=WHEN)
    connection = object()
    assert Options.of(expires_in="1h", unique_key="k", within=connection).within is connection
    assert Options.of(expires_in="1h", unique_key="k") == Options(expires_in=3600.0, unique_key="k")
    assert str(Options.of(run_at=datetime(2030, 1, 1, tzinfo=EAST)).run_at) == "2029-12-31 10:00:00+00:00"


def test_the_task_supplies_what_the_options_leave_out() -> None:
    def job(options: Options) -> tuple[object, ...]:
        made = options.new_job(UUID(int=1), "task", b"{}", queue="slow", key="own", priority=3, policy=Policy())
        return made.queue, made.key, made.priority, made.delay, made.run_at, made.expires_in, made.unique_key, made.tags

    assert job(Options()) == ("slow", "own", 3, 0.0, None, None, None, ())
    given = Options(queue="q", key="acme", priority=0, delay=1.0, run_at=WHEN, expires_in=2.0, unique_key="k", tags=("t",))
    assert job(given) == ("q", "acme", 0, 1.0, WHEN, 2.0, "k", ("t",))


def test_every_problem_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options.of(
            queue="a b",
            priority=1.5,  # type: ignore[arg-type]
            delay="soon",
            run_at=datetime(2030, 1, 1),
            expires_in=-1,
            key="",
            unique_key="",
            tags="a",
        )
    starts = [problem.split("=")[0].split(":")[0] for problem in caught.value.problems]
    assert starts == ["queue", "priority", "delay", "delay and run_at", "run_at", "expires_in", "key", "unique_key", "tags"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"after": "a"}, "use a list"),
        ({"after": UUID(int=1)}, "use a list"),
        ({"after": [5]}, "use the handle of a job that was enqueued, or its id"),
        ({"after": ["nonsense"]}, "its id"),
        ({"after": [UUID(int=1)], "join": "some"}, "use 'all', 'any' or AtLeast"),
        ({"after": [UUID(int=1)], "when": "failed"}, "use 'succeeded' or 'finished'"),
        ({"after": [UUID(int=1), UUID(int=1)], "join": AtLeast(2)}, "it has 1 parents: use 1 to 1"),
        ({"after": [UUID(int=1)], "join": AtLeast(0)}, "use 1 to 1"),
        ({"after": [], "join": AtLeast(1)}, "name these jobs with after="),
        ({"after": [UUID(int=1)], "unique_key": "k"}, "unique_key: a job that waits for others"),
        ({"after": [UUID(int=1)], "within": object()}, "within: a job that waits for others"),
    ],
)
def test_what_a_job_cannot_wait_for_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Options.of(**options)


def test_parents_are_named_once_by_id_or_text() -> None:
    ids = [UUID(int=1), UUID(int=2)]
    assert Options.of(after=[*ids, ids[0], str(ids[1])]).after == After(tuple(ids))
    assert Options.of(after=ids, join="any", when="finished").after == After(tuple(ids), 1, tolerates=True)
    assert Options.of(after=ids, join=AtLeast(2), unique_key=None).after == After(tuple(ids), 2)
    assert Options.of(after=[], join="any") == Options()


@pytest.mark.parametrize("text", ["", "a" * 201, "a\nb", "\x7f", "\x9b", "a\ud800", 5, b"a", None])
def test_strings_that_could_break_a_statement_or_a_terminal_are_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match=r"tags=.* 1 to 200 characters without control"):
        Options.of(tags=["fine", text])  # type: ignore[list-item]
    if text is not None:
        with pytest.raises(ConfigurationError, match=r"unique_key=.* 1 to 200 characters without control"):
            Options.of(unique_key=text)  # type: ignore[arg-type]


def test_any_other_string_is_a_valid_key_and_tag() -> None:
    for text in ("a" * 200, "order 5/é/日本/🎉", "'; DROP TABLE jobs", " "):
        options = Options.of(unique_key=text, tags=[text])
        assert (options.unique_key, options.tags) == (text, (text,))


@pytest.mark.parametrize("expires_in", [0, "0s", timedelta(0), -1, float("nan"), "never", 1e300])
def test_a_lifetime_is_positive(expires_in: object) -> None:
    with pytest.raises(ConfigurationError, match="expires_in"):
        Options.of(expires_in=expires_in)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", [datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))])
def test_l4_a_due_time_outside_the_calendar_fails_its_caller_and_not_the_batch(when: datetime) -> None:
    with pytest.raises(ConfigurationError, match="leaves the calendar"):
        Options.of(run_at=when)


@pytest.mark.parametrize("tags", ["a", 5, {"a"}, [["a"]]])
def test_tags_are_a_list_of_strings(tags: object) -> None:
    with pytest.raises(ConfigurationError, match="tags="):
        Options.of(tags=tags)  # type: ignore[arg-type]
