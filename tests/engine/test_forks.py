"""Whatever has locks or connections is held while the process forks, and starts afresh in the child."""

import gc

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
        self.story.append(f"{self.name} afresh")


class Maker(Thing):
    """Waiting for it, one more comes to be."""

    def before_fork(self) -> None:
        super().before_fork()
        self.made = Thing(self.forks, self.story, "made")


def test_all_are_held_and_released_in_the_parent() -> None:
    forks, story = Forks(), list[str]()
    things = [Thing(forks, story, name) for name in ("one", "two")]
    for _ in range(2):
        forks.before_fork()
        forks.after_fork_in_parent()
    assert story == ["one held", "two held", "two released", "one released"] * 2
    assert len(things) == 2


def test_what_comes_to_be_meanwhile_is_held_too() -> None:
    forks, story = Forks(), list[str]()
    maker = Maker(forks, story, "maker")
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == ["maker held", "made held", "made released", "maker released"]
    assert maker.made.name == "made"


def test_a_child_starts_all_of_them_afresh_and_may_fork_again() -> None:
    forks, story = Forks(), list[str]()
    thing = Thing(forks, story, "one")
    forks.before_fork()
    forks.after_fork_in_child()
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == ["one held", "one afresh", "one held", "one released"]
    assert thing.name == "one"


def test_what_nobody_keeps_is_forgotten() -> None:
    forks, story = Forks(), list[str]()
    Thing(forks, story, "gone")
    gc.collect()
    forks.before_fork()
    forks.after_fork_in_parent()
    assert story == []
