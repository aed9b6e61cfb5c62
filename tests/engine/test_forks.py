"""Whatever has locks or connections is held while the process forks, and starts afresh in the child."""

import gc

from holdfast._forks import Forks


class Thing:
    def __init__(self, forks: Forks, story: list[str], name: str) -> None:
        self.forks, self.story, self.name = forks, story, name
        forks.care_for(self)

    def hold(self) -> None:
        self.story.append(f"{self.name} held")

    def release(self) -> None:
        self.story.append(f"{self.name} released")

    def start_afresh(self) -> None:
        self.story.append(f"{self.name} afresh")


class Maker(Thing):
    """Waiting for it, one more comes to be."""

    def hold(self) -> None:
        super().hold()
        self.made = Thing(self.forks, self.story, "made")


def test_all_are_held_and_released_in_the_parent() -> None:
    forks, story = Forks(), list[str]()
    things = [Thing(forks, story, name) for name in ("one", "two")]
    for _ in range(2):
        forks.hold()
        forks.release()
    assert story == ["one held", "two held", "two released", "one released"] * 2
    assert len(things) == 2


def test_what_comes_to_be_meanwhile_is_held_too() -> None:
    forks, story = Forks(), list[str]()
    maker = Maker(forks, story, "maker")
    forks.hold()
    forks.release()
    assert story == ["maker held", "made held", "made released", "maker released"]
    assert maker.made.name == "made"


def test_a_child_starts_all_of_them_afresh_and_may_fork_again() -> None:
    forks, story = Forks(), list[str]()
    thing = Thing(forks, story, "one")
    forks.hold()
    forks.start_afresh()
    forks.hold()
    forks.release()
    assert story == ["one held", "one afresh", "one held", "one released"]
    assert thing.name == "one"


def test_what_nobody_keeps_is_forgotten() -> None:
    forks, story = Forks(), list[str]()
    Thing(forks, story, "gone")
    gc.collect()
    forks.hold()
    forks.release()
    assert story == []
