"""S15 on MongoDB: each command of each verb fails in each way. An answer is right or unknown, and never a false "no"."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import pytest
from pymongo import common
from pymongo.errors import PyMongoError

from holdfast._ports.store import Store
from holdfast.databases.mongo import database
from holdfast.errors import StoreUnavailable
from holdfast.testing.clock import FakeClock
from holdfast.testing.contracts.scene import Part, Scene, play
from holdfast.testing.servers import MongoSet
from tests.stores.mongo_faults import FAULTS, LOST_ANSWER, LOST_REQUEST, Fault, FaultyMember
from tests.stores.mongo_homes import MongoHome
from tests.stores.mongo_verbs import FREQUENT, VERBS, Act, Verb, all_finish, enqueue_with_a_taken_key, own_documents

DATABASE = f"faults_{os.getpid()}"
Answer = TypeVar("Answer")
MOST = 99
"""More commands than a verb has."""


class Site(Part):
    """A set of one whose member fails when a test asks. Its clock follows the test's."""

    def __init__(self, member: FaultyMember) -> None:
        self.member = member
        self.home = MongoHome(member.front.url(DATABASE))

    def make_store(self, clock: FakeClock) -> Store:
        return self.home.store(clock)

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.home.run(story)

    def fresh(self, act: Callable[[Scene], Awaitable[Answer]]) -> Answer:
        """Run a coroutine in a scene whose database is empty, and return its answer."""
        self.home.empty()
        found = list[Answer]()

        async def story(at: Scene) -> None:
            found.append(await act(at))

        play(self, story)
        return found[0]


@pytest.fixture(scope="module")
def site(mongo_set: MongoSet) -> Iterator[Site]:
    patch = pytest.MonkeyPatch()
    patch.setattr(common, "MIN_HEARTBEAT_INTERVAL", 0.002)  # a client waits half a second after each lost connection
    member = FaultyMember(mongo_set.primary())
    with member.front:
        site = Site(member)
        with closing(site.home):
            yield site
        mongo_set.drop_database(site.home.url)
    patch.undo()


@contextmanager
def impatience() -> Iterator[None]:
    """Let commands fail soon: the driver sends them again for as long as a verb may take."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("VERB_LIMIT", "BEAT_LIMIT", "SEARCH_LIMIT", "CONFLICT_LIMIT"):
            patch.setattr(database, limit, 0.1)
        yield


async def ask(act: Act, *, copies: int = 0) -> bool:
    """Call a verb; return whether its answer is known, and so right. ``copies``: how often it may have been carried out before."""
    try:
        answer = await act.do()
    except (StoreUnavailable, PyMongoError):  # the driver's errors in a user's own session are the user's
        return False
    again = act.is_right_again or act.is_right
    assert again(answer) or (copies < 2 and act.is_right(answer)), f"answered {answer}"
    return True


async def commands_of(site: Site, verb: Verb, at: Scene) -> int:
    """Return how many commands a verb has that nothing disturbs."""
    act = await verb(at)
    with site.member.failing(None) as commands:
        assert await ask(act)
        number = len(commands)
    assert await ask(act, copies=2)
    await all_finish(at, act.jobs)
    return number


async def survive(site: Site, verb: Verb, fault: Fault, place: int, times: int, at: Scene) -> bool:
    """Let the commands of a verb fail from this one on; return whether any did."""
    act = await verb(at)
    with site.member.failing(fault, place, times), impatience():
        is_known = await ask(act)
        hits = site.member.hits
    assert await ask(act, copies=2 if is_known else 1)
    await site.member.deliver_late()
    assert await ask(act, copies=2)
    await all_finish(at, act.jobs)
    return hits > 0


def name_of(verb: Verb) -> str:
    """Return the name of a verb in the name of a test."""
    return verb.__name__


def fail_everywhere(site: Site, verb: Verb, fault: Fault, times: int) -> None:
    """Let each command of a verb fail in turn."""
    commands = site.fresh(lambda at: commands_of(site, verb, at))
    hits = [site.fresh(lambda at: survive(site, verb, fault, place, times, at)) for place in range(commands)]  # noqa: B023
    assert any(hits) or fault.writes or fault.is_late


@pytest.mark.parametrize(
    "verb", [each if each in FREQUENT else pytest.param(each, marks=pytest.mark.prove) for each in VERBS], ids=name_of
)
def test_s15_no_verb_answers_wrongly_when_its_answers_are_lost(site: Site, verb: Verb) -> None:
    fail_everywhere(site, verb, LOST_ANSWER, MOST)


@pytest.mark.parametrize("verb", [enqueue_with_a_taken_key, pytest.param(own_documents, marks=pytest.mark.prove)], ids=name_of)
def test_s15_a_write_does_not_wait_for_a_transaction_whose_abort_was_lost(site: Site, verb: Verb) -> None:
    fail_everywhere(site, verb, LOST_REQUEST, 2)


@pytest.mark.prove
@pytest.mark.parametrize("times", [1, 2, MOST], ids=["once", "twice", "until it ends"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("verb", VERBS, ids=name_of)
def test_s15_no_verb_answers_wrongly_when_its_commands_fail(site: Site, verb: Verb, fault: Fault, times: int) -> None:
    fail_everywhere(site, verb, fault, times)
