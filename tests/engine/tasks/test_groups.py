"""Task groups: tasks that are defined without an App; they are enqueued and run under the names of their group."""

import pytest

from holdfast import App, ConfigurationError, Node, TaskGroup, Workflow


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


def test_a_workflow_of_a_group_has_its_prefix_and_queue_and_runs_once_the_group_is_included() -> None:
    app, group = App("memory://"), make_group()
    task = group.task(send)

    @group.workflow(deadline="2h")
    def campaign(w: Workflow, to: str) -> Node[str]:
        return w.add(task.bind(to))

    bound = campaign.options(unique_key="k").bind("b")
    with pytest.raises(ConfigurationError, match=r"call app\.include\(group\)"):
        campaign.enqueue("a")
    app.include(group)
    handle = campaign.enqueue("a")
    assert (campaign.name, handle.get().task, handle.get().queue) == ("email.campaign", "email.campaign", "mail")
    assert [(node.task, node.name) for node in handle.nodes()] == [("email.send", "email.send")]
    app.run_due()
    assert handle.result(timeout=1) == "sent to a"
    assert app.enqueue("email.campaign", to="c").get().task == "email.campaign"
    assert bound.new_job().unique_key == "k"
    app.close()


def test_a_workflow_added_to_an_included_group_is_registered_and_a_taken_name_is_refused() -> None:
    app, group = App("memory://"), make_group()
    group.task(send)
    app.include(group)

    @group.workflow
    def campaign(w: Workflow) -> None:
        pass

    assert app.registry.names() == ("email.send", "email.campaign")
    campaign.enqueue()
    with pytest.raises(ConfigurationError, match=r"task email\.send: registered twice"):
        group.workflow(name="send")(lambda w: None)
    app.close()


def test_a_group_builds_no_graph_in_place_and_refuses_unknown_options() -> None:
    group = make_group()
    with pytest.raises(ConfigurationError, match=r"it needs an App: app\.workflow\('release'\)"):
        group.workflow("release")  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="no option 'quue'"):
        group.workflow(quue="x")  # type: ignore[call-overload]


def test_a_wrong_prefix_queue_or_option_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        TaskGroup(prefix="no spaces ", queue="")
    assert [problem.split("=")[0] for problem in caught.value.problems] == ["prefix", "queue"]
    with pytest.raises(ConfigurationError, match="no option 'quue'"):
        make_group().task(quue="x")  # type: ignore[call-overload]
