"""Objects with locks or connections are locked while the process forks, and restart in the child."""

import gc

import pytest

from holdfast._forks import Forks


class Thing:
    def __init__(self, forks: Forks, story: list[str], name: str) -> None:
        self.forks, self.story, self.name = forks, story, name
        forks.register(self)

    def before_fork(self) -> None:
        self.story.append(f"{self.name} held")

    def after_fork_in_parent(self) -> None:
        self.story.append(f"{self.name} released")

    def after_fork_in_child(self) -> None:
        self.story.append(f"{self.name} restarted")


class Maker(Thing):
    """An object whose preparation for the fork makes one more."""

    def before_fork(self) -> None:
        super().before_fork()
        self.made = Thing(self.forks, self.story, "made")


def test_all_objects_are_locked_and_released_in_the_parent() -> None:
    forks, story = Forks(), list[str]()
    things = [Thing(forks, story, name) for name in ("one", "two")]
    for _ in range(2):
        forks.before_fork()
        forks.after_fork_in_parent()
    assert story == ["one held", "two held", "two released", "one released"] * 2
    assert len(things) == 2


def test_an_object_that_is_made_before_the_fork_is_locked_too() -> None:
    forks, story = Forks(), list[str]()
    maker = Maker(forks, story, "maker")
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == ["maker held", "made held", "made released", "maker released"]
    assert maker.made.name == "made"


def test_a_child_restarts_all_objects_and_may_fork_again() -> None:
    forks, story = Forks(), list[str]()
    thing = Thing(forks, story, "one")
    forks.before_fork()
    forks.after_fork_in_child()
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == ["one held", "one restarted", "one held", "one released"]
    assert thing.name == "one"


def test_objects_without_a_reference_are_forgotten() -> None:
    forks, story = Forks(), list[str]()
    Thing(forks, story, "gone")
    gc.collect()
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == []


def test_modules_are_loaded_before_the_fork_of_a_process_that_has_an_object() -> None:
    forks = Forks()
    forks.load_first("no.such.module")
    forks.before_fork()
    forks.after_fork_in_parent()
    thing = Thing(forks, [], "one")
    with pytest.raises(ModuleNotFoundError):
        forks.before_fork()
    assert thing.name == "one"
