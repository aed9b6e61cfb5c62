"""Unique keys as your code asks for them: made from parameters, held for a period, freed by the first claim."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, UniqueConflict
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from holdfast._engine.tasks.options import Options
from holdfast.errors import ConfigurationError

NIGHT = 20 * 3600.0


@pytest.fixture
def app() -> App:
    return App("memory://")


def keys_of(app: App) -> list[tuple[str | None, float | None, str]]:
    """Return the key and its terms for each job, in the order in which they were enqueued."""
    return [(job.unique_key, job.unique_for, job.unique_until) for job in reversed(app.jobs.list())]


def test_a_task_names_the_parameters_that_are_the_key(app: App) -> None:
    @app.task(unique_by=("order", "urgent"), unique_for="20h", unique_until="started")
    def send(order: int, note: str = "", urgent: bool = False) -> None: ...

    assert send.enqueue(order=7).created
    assert not send.enqueue(order=7).created
    with pytest.raises(UniqueConflict):
        send.enqueue(7, urgent=False)  # the key is the same, and the payload is written differently
    assert send.enqueue(8).created
    assert send.options(unique_key="mine", unique_for="1h", unique_until="finished").enqueue(7).created
    assert send.options(unique_by=("order",)).enqueue(7).created
    night = (NIGHT, "started")
    own = ("mine", 3600.0, "finished")
    assert keys_of(app) == [
        ('{"order":7,"urgent":false}', *night),
        ('{"order":8,"urgent":false}', *night),
        own,
        ('{"order":7}', *night),
    ]


def test_no_parameter_at_all_is_one_key_for_the_task(app: App) -> None:
    @app.task(unique_by=())
    def close() -> None: ...

    assert (close.enqueue().created, close.enqueue().created) == (True, False)


def test_a_long_key_is_shortened_to_its_hash(app: App) -> None:
    @app.task(unique_by=("text",))
    def read(text: str) -> None: ...

    many = read.enqueue_many([{"text": "x" * 300}, {"text": "x" * 300}, {"text": "x" * 301}, {"text": "\n"}])
    assert [handle.created for handle in many] == [True, False, True, True]
    assert [key and key.startswith("sha256:") and len(key) for key, *_ in keys_of(app)] == [71, 71, False]


def test_other_parameters_must_be_equal_too(app: App) -> None:
    @app.task(unique_by=("order",))
    def send(order: int, note: str = "") -> None: ...

    first = send.enqueue(7, note="a")
    with pytest.raises(UniqueConflict) as caught:
        send.enqueue(7, note="b")
    assert caught.value.job == first.id


def test_a_caller_may_want_no_earlier_job(app: App) -> None:
    @app.task
    def send(order: int) -> None: ...

    order = send.options(unique_key="k", on_duplicate="raise")
    first = order.enqueue(7)
    with pytest.raises(UniqueConflict, match="holds the unique key") as caught:
        order.enqueue(7)
    assert caught.value.job == first.id
    with pytest.raises(ConfigurationError, match="look at each handle's `created`"):
        send.options(on_duplicate="raise").enqueue_many([{"order": 1}, {"order": 2}])


def test_a_schedule_and_a_workflow_leave_the_key_of_a_task_out(app: App) -> None:
    @app.task(unique_by=())
    def close() -> None: ...

    prepared = close.bind()
    assert (prepared.new_member().unique_key, prepared.new_job().unique_key) == (None, "{}")


def test_the_nightly_job_of_two_schedulers_runs_once_a_night(tmp_path: Path) -> None:
    runs = list[str]()
    apps = [App(f"sqlite:///{tmp_path}/jobs.db") for _ in range(2)]

    def nightly() -> str:
        runs.append("run")
        return "closed"

    tasks = [app.task(unique_by=(), unique_for="20h")(nightly) for app in apps]
    threads = [threading.Thread(target=lambda task=task: [task.enqueue() for _ in range(5)]) for task in tasks]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert apps[0].run_due() + apps[1].run_due() == 1
    later = tasks[1].enqueue()
    assert (later.created, later.result(), runs) == (False, "closed", ["run"])
    for app in apps:
        app.close()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"unique_for": "0s", "unique_key": "k"}, "unique_for='0s': use a positive duration"),
        ({"unique_for": "soon", "unique_key": "k"}, "unique_for: 'soon' is not a duration"),
        ({"unique_until": "done", "unique_key": "k"}, "unique_until='done': use 'finished' or 'started'"),
        ({"unique_by": "order"}, "unique_by='order': use names of parameters"),
        ({"unique_by": [1]}, "unique_by=[1]: use names of parameters"),
        ({"unique_by": ("a",), "unique_key": "k"}, "unique_key and unique_by: use one of them"),
        ({"on_duplicate": "ignore"}, "on_duplicate='ignore': use 'return' or 'raise'"),
    ],
)
def test_what_cannot_be_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options.of(**given)
    (found,) = caught.value.problems
    assert found.startswith(problem)


@pytest.mark.parametrize("by", ["order", 5])
def test_a_task_whose_parameters_are_not_names_gets_one_problem(app: App, by: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        app.task(name="t", unique_by=by)(lambda order: None)
    (found,) = caught.value.problems
    assert found == f"task t: unique_by={by!r}: use names of parameters, for example unique_by=('order',)"


def _of_a_task(app: App) -> object:
    return app.task(unique_by=("none",))(lambda order: None)


def _without_a_key(app: App) -> object:
    return app.task(name="t")(lambda order: None).options(unique_for="1h").enqueue(1)


def _of_an_enqueue(app: App) -> object:
    return app.task(name="t")(lambda order: None).options(unique_by=("none",)).enqueue(1)


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (_of_a_task, "'none' is no parameter of the handler"),
        (_without_a_key, "unique_for: name what is unique"),
        (_of_an_enqueue, "unique_by: it has no parameter 'none'"),
    ],
)
def test_a_key_that_no_parameter_makes_is_refused(app: App, write: Callable[[App], object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        write(app)
    assert app.jobs.list() == []


def test_terms_without_a_key_are_those_of_all_jobs() -> None:
    assert Uniqueness() == UNTIL_FINISHED
    assert Uniqueness(seconds=0.0000014).period is not None
