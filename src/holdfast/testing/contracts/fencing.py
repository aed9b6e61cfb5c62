"""Fencing: in a call about several jobs each has its own token, and no other one's."""

from msgspec import structs

from holdfast._core.job import Hold, State, Token
from holdfast._core.outcome import Snooze
from holdfast._ports.store import Answer, Note, Update
from holdfast.testing.contracts.scene import Part, Scene, answered, done, raised, story


async def pair(at: Scene, *, running: bool = True) -> tuple[Hold, Hold]:
    """Two jobs of one claim, in a queue of their own."""
    queue = str(at.chance.uuid4())
    await at.enqueue(at.new(queue=queue), at.new(queue=queue))
    limit, prefetch = (2, 0) if running else (0, 2)
    one, two = await at.claim(await at.lease(), limit, prefetch=prefetch, queues=(queue,))
    return one.hold, two.hold


def swapped(one: Hold, two: Hold) -> tuple[Hold, Hold]:
    """Each with the other's token."""
    return structs.replace(one, token=two.token), structs.replace(two, token=one.token)


class FenceContract(Part):
    """What is promised to those who are written in one call."""

    @story
    async def test_swapped_tokens_move_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        for move in (done, raised, lambda hold: answered(hold, Snooze(for_="1s"))):
            assert await at.settle(*map(move, swapped(one, two))) == (Answer.LOST, Answer.LOST)
            answer = await at.store.exchange([*map(move, swapped(one, two))], at.request(one.lease))
            assert answer.answers == (Answer.LOST, Answer.LOST)
        assert [await at.state(hold.job) for hold in (one, two)] == [State.RUNNING] * 2
        assert await at.settle(done(one), done(two)) == (Answer.APPLIED, Answer.APPLIED)

    @story
    async def test_swapped_tokens_start_nothing(self, at: Scene) -> None:
        one, two = await pair(at, running=False)
        asked = [(hold.job, hold.token) for hold in swapped(one, two)]
        assert await at.store.start(asked) == {one.job, two.job}
        assert [await at.state(hold.job) for hold in (one, two)] == [State.CLAIMED] * 2

    @story
    async def test_swapped_tokens_report_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        said = [Update(job=hold.job, token=hold.token, stage="s") for hold in swapped(one, two)]
        assert await at.store.report(said) == {one.job, two.job}
        assert [(await at.row(hold.job)).stage for hold in (one, two)] == [None, None]

    @story
    async def test_swapped_tokens_note_nothing(self, at: Scene) -> None:
        one, two = await pair(at)
        await at.settle(raised(one), raised(two))
        await at.store.annotate([Note(job=hold.job, token=hold.token, stacks="s") for hold in swapped(one, two)])
        assert [(await at.row(hold.job)).attempts[0].stacks for hold in (one, two)] == [None, None]

    @story
    async def test_of_several_tokens_those_that_hold_are_obeyed(self, at: Scene) -> None:
        one, two = await pair(at)
        late = [Token(two.token.claim, two.token.number - 1), Token(at.chance.uuid4(), two.token.number)]
        for token in late:
            answers = await at.settle(done(structs.replace(two, token=token)), raised(one))
            assert answers == (Answer.LOST, Answer.APPLIED)
        said = [Update(job=hold.job, token=hold.token, stage="s") for hold in (one, two)]
        assert await at.store.report(said) == {one.job}
        assert await at.settle(done(two)) == (Answer.APPLIED,)
