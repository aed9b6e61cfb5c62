"""Task groups: tasks that are defined without an App; they are enqueued and run under the names of their group."""

import pytest

from holdfast import App, ConfigurationError, TaskGroup


def make_group() -> TaskGroup:
    return TaskGroup(prefix="email.", queue="mail")


async def send(to: str) -> str:
    return f"sent to {to}"


def test_a_group_gives_its_tasks_a_prefix_and_a_queue() -> None:
    app, group = App("memory://"), make_group()
    task = group.task(send)
    other = group.task(name="later", queue="slow", max_attempts=1)(send)
    app.include(group)
    assert (task.name, other.name) == ("email.send", "email.later")
    handle = task.enqueue(to="a")
    assert (handle.get().queue, other.enqueue(to="b").get().queue) == ("mail", "slow")
    assert app.run_due() == 2
    assert handle.get().result == "sent to a"
    app.close()


def test_enqueue_names_the_remedy_when_the_tasks_group_is_not_included() -> None:
    task = make_group().task(send)
    with pytest.raises(ConfigurationError, match=r"call app\.include\(group\)"):
        task.enqueue(to="a")
    with pytest.raises(ConfigurationError, match=r"call app\.include\(group\)"):
        task.options(delay="1s").enqueue_many([{"to": "a"}])


def test_a_task_added_to_an_included_group_is_registered_in_the_app() -> None:
    app, group = App("memory://"), make_group()
    app.include(group)
    task = group.task(send)
    task.enqueue(to="a")
    assert app.registry.names() == ("email.send",)
    app.close()


def test_a_group_belongs_to_one_app_and_is_included_once() -> None:
    app, other, group = App("memory://"), App("memory://"), make_group()
    group.task(send)
    app.include(group)
    app.include(group)
    assert app.registry.names() == ("email.send",)
    with pytest.raises(ConfigurationError, match="make a group for each App"):
        other.include(group)
    assert other.registry.names() == ()


def test_names_that_are_taken_are_refused_together_and_nothing_is_included() -> None:
    app, group = App("memory://"), TaskGroup()
    for name in ("one", "two", "three"):
        group.task(name=name)(send)
    app.task(name="one")(send)
    app.task(name="three")(send)
    with pytest.raises(ConfigurationError) as caught:
        app.include(group)
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["task one", "task three"]
    assert app.registry.names() == ("one", "three")
    with pytest.raises(ConfigurationError, match=r"app\.include"):
        group.task(name="four")(send).enqueue(to="a")


def test_a_wrong_prefix_queue_or_option_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        TaskGroup(prefix="no spaces ", queue="")
    assert [problem.split("=")[0] for problem in caught.value.problems] == ["prefix", "queue"]
    with pytest.raises(ConfigurationError, match="no option 'quue'"):
        make_group().task(quue="x")  # type: ignore[call-overload]
