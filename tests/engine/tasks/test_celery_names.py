"""A name that is brought along from Celery ends in an error that has Holdfast's."""

from typing import Any

import pytest

from holdfast import App, ConfigurationError

app = App("memory://")


@app.task
def add(x: int, y: int) -> int:
    return x + y


untyped: Any = add


@pytest.mark.parametrize(
    ("name", "here"),
    [("delay", "task.enqueue(…)"), ("apply_async", "task.options(…).enqueue(…)"), ("s", "task.bind(…)"), ("si", "task.bind(…)")],
)
def test_a_method_of_celerys_tasks_is_named_as_it_is_here(name: str, here: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(untyped, name)
    assert str(caught.value) == f"'Task' object has no attribute {name!r}; Holdfast: {here}"
    with pytest.raises(AttributeError, match=r"no attribute 'delays'$"):
        _ = untyped.options(queue="mail").delays
    assert not hasattr(untyped, "__deepcopy__")


def test_options_of_celery_are_named_as_they_are_here() -> None:
    with pytest.raises(ConfigurationError) as caught:
        untyped.options(countdown=3, eta=None, queue="mail")
    assert caught.value.problems == [
        "task.options has no option 'countdown'; Holdfast: delay=",
        "task.options has no option 'eta'; Holdfast: run_at=",
    ]
    with pytest.raises(TypeError, match="unexpected keyword argument 'delays'"):
        untyped.options(delays=3)
    declare: Any = app.task
    with pytest.raises(ConfigurationError) as caught:
        declare(bind=True, max_retries=5, queue="mail")
    assert caught.value.problems == [
        "app.task has no option 'bind'; Holdfast: a first parameter `job: Job`",
        "app.task has no option 'max_retries'; Holdfast: max_attempts=, which counts the first attempt, too",
    ]
