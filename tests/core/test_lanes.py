"""Lanes take turns: who is looked at, what is dealt out, and where the next claim begins."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast._core.lanes import LANES, Cursor, LaneHead, Turn, deal, in_ring, in_turns, looked_at, moved_on, share, weight_of

heads = st.lists(
    st.builds(
        LaneHead,
        priority=st.integers(-1, 1),
        queue=st.sampled_from(["a", "b", "é"]),
        key=st.sampled_from(["", "x", "y", "z"]),
        due=st.integers(1, 40),
        weight=st.integers(1, 3),
    ),
    unique_by=lambda lane: (lane.priority, lane.queue, lane.key),
    max_size=24,
)
cursors = st.lists(
    st.builds(Turn, priority=st.integers(-1, 1), queue=st.sampled_from(["a", "b", "c"]), key=st.sampled_from(["", "x"])),
    unique_by=lambda turn: turn.priority,
    max_size=3,
).map(tuple)


def lanes(*names: str, due: int = 5) -> list[LaneHead]:
    return [LaneHead(0, name, "", due) for name in names]


def test_a_ring_begins_after_the_lane_that_was_served_last_or_at_it_while_its_turn_goes_on() -> None:
    ring = lanes("a", "b", "c")
    assert [lane.queue for lane in in_ring(ring, (Turn(0, "b", ""),))] == ["c", "a", "b"]
    assert [lane.queue for lane in in_ring(ring, (Turn(0, "b", "", left=1),))] == ["b", "c", "a"]
    assert [lane.queue for lane in in_ring(ring, (Turn(0, "bb", ""),))] == ["c", "a", "b"]
    assert [lane.queue for lane in in_ring(ring, (Turn(1, "b", ""),))] == ["a", "b", "c"]


def test_a_turn_that_was_begun_is_ended_first() -> None:
    ring = [LaneHead(0, "a", "", 9, weight=3), LaneHead(0, "b", "", 9)]
    cursor: Cursor = ()
    served = []
    for _ in range(8):
        looked, is_cut = looked_at(in_ring(ring, cursor), 1)
        dealt = deal(looked, 1, cursor, is_cut=is_cut)
        served += [lane.queue for lane, number in zip(looked, dealt.takes, strict=True) if number]
        cursor = dealt.cursor
    assert "".join(served) == "aaabaaab"


def test_a_begun_turn_ends_in_a_claim_that_takes_more_than_the_rest_of_it() -> None:
    ring = [LaneHead(0, name, "", 9, weight=2) for name in "ab"]
    cursor: Cursor = (Turn(0, "a", "", left=1),)
    served = []
    for _ in range(4):
        looked, is_cut = looked_at(in_ring(ring, cursor), 2)
        dealt = deal(looked, 2, cursor, is_cut=is_cut)
        served += [lane.queue for lane, number in zip(looked, dealt.takes, strict=True) for _ in range(number)]
        cursor = dealt.cursor
    assert "".join(served) == "aabbaabb"


def test_deep_lanes_share_a_claim_and_the_next_one_goes_on_behind_them() -> None:
    ring = [LaneHead(0, f"{n:02}", "", 100) for n in range(40)]
    looked, is_cut = looked_at(ring, 100)
    dealt = deal(looked, 100, (), is_cut=is_cut)
    assert (len(looked), is_cut, sum(dealt.takes)) == (15, True, 100)
    assert dealt.cursor == (Turn(0, "14", ""),)


def test_a_cursor_remembers_the_newest_turns_of_few_priorities() -> None:
    cursor: Cursor = ()
    for priority in range(30):
        cursor = moved_on(cursor, [Turn(priority, "q", "")])
    assert [turn.priority for turn in cursor] == list(range(29, 13, -1))
    assert moved_on(cursor, [Turn(20, "r", "")])[0] == Turn(20, "r", "")


def test_weights_of_queue_and_key_are_multiplied() -> None:
    assert [weight_of(2, {"acme": 3}, key) for key in ("acme", "")] == [6, 2]


@given(heads, cursors, st.integers(1, 60))
def test_a_deal_takes_what_is_there_and_leaves_no_more_urgent_job(ring: list[LaneHead], cursor: Cursor, room: int) -> None:
    looked, is_cut = looked_at(in_ring(ring, cursor), room)
    dealt = deal(looked, room, cursor, is_cut=is_cut)
    assert all(0 <= number <= lane.due for number, lane in zip(dealt.takes, looked, strict=True))
    assert sum(dealt.takes) == min(room, sum(lane.due for lane in ring))
    taken = Counter({lane.priority: 0 for lane in ring})
    for lane, number in zip(looked, dealt.takes, strict=True):
        taken[lane.priority] += number
    for priority in sorted(taken):
        there = sum(lane.due for lane in ring if lane.priority == priority)
        assert taken[priority] == min(there, room - sum(taken[other] for other in taken if other < priority))


@given(heads, cursors, st.integers(1, 60))
def test_the_order_of_turns_has_each_job_once_and_each_lane_in_its_own_order(
    ring: list[LaneHead], cursor: Cursor, room: int
) -> None:
    looked, is_cut = looked_at(in_ring(ring, cursor), room)
    dealt = deal(looked, room, cursor, is_cut=is_cut)
    order = in_turns(looked, dealt, cursor)
    for place, number in enumerate(dealt.takes):
        assert [nth for lane, nth in order if lane == place] == list(range(number))


@given(st.integers(1, 1000))
def test_sixteen_shares_fill_a_claim(room: int) -> None:
    assert (share(room, 1) - 1) * LANES < room <= share(room, 1) * LANES
