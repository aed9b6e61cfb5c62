"""The ids and random numbers of the machine."""

from copy import copy
from itertools import pairwise
from threading import Thread
from uuid import UUID

import pytest

from holdfast._system import clock
from holdfast._system.clock import SystemRandomness


def test_ids_sort_by_creation_within_a_process_even_when_the_wall_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    randomness, now = SystemRandomness(), [1_700_000_000_000_000_000]
    monkeypatch.setattr(clock.time, "time_ns", lambda: now[0])
    made = [randomness.uuid7() for _ in range(1000)]
    now[0] -= 3_600_000_000_000
    made += [randomness.uuid7() for _ in range(1000)]
    now[0] += 7_200_000_000_000
    made.append(randomness.uuid7())
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {(each.version, each.variant) for each in made} == {(7, made[0].variant)}


def test_threads_never_share_an_id() -> None:
    randomness, made = SystemRandomness(), list[UUID]()
    threads = [Thread(target=lambda: made.extend(randomness.uuid7() for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000


def test_two_processes_of_one_moment_make_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    assert SystemRandomness().uuid7() != SystemRandomness().uuid7()


def test_s2_clones_of_a_process_never_make_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    original = SystemRandomness()
    made = {original.uuid4(), original.uuid7()}
    clones = [copy(original) for _ in range(4)]
    for _ in range(200):
        made |= {make() for each in (original, *clones) for make in (each.uuid4, each.uuid7)}
    assert len(made) == 2 + 200 * 5 * 2


def test_ids_go_on_growing_when_a_millisecond_has_none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    monkeypatch.setattr(clock.os, "urandom", lambda size: b"\xff" * size)
    randomness = SystemRandomness()
    randomness._last = (1_700_000_000_000 << clock.FREE_BITS) + 2**clock.FREE_BITS - 1
    made = [randomness.uuid7() for _ in range(2)]
    assert made == sorted(made)
    assert {each.int >> 80 for each in made} == {1_700_000_000_001}


def test_jitter_goes_both_ways() -> None:
    drawn = [SystemRandomness().jitter() for _ in range(200)]
    assert -1.0 <= min(drawn) < -0.5
    assert 0.5 < max(drawn) <= 1.0


def test_many_ids_sort_between_those_before_and_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    randomness, now = SystemRandomness(), [1_700_000_000_000_000_000]
    monkeypatch.setattr(clock.time, "time_ns", lambda: now[0])
    made = [*randomness.uuid7s(1), *randomness.uuid7s(0), randomness.uuid7(), *randomness.uuid7s(2000)]
    now[0] -= 3_600_000_000_000
    made += [*randomness.uuid7s(2000), randomness.uuid7()]
    now[0] += 7_200_000_000_000
    made += randomness.uuid7s(2000)
    assert made == sorted(made)
    assert len(set(made)) == len(made) == 6003
    assert {(each.version, each.variant) for each in made} == {(7, made[0].variant)}
    assert len({each.int >> 80 for each in made}) == 2


@pytest.mark.parametrize("free", [0, 2**50, 2**62])
def test_many_ids_cross_the_bits_of_the_variant(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    randomness = SystemRandomness()
    randomness._last = (1_700_000_000_000 << clock.FREE_BITS) + 2**clock.FREE_BITS - 1 - free
    made = [randomness.uuid7(), *randomness.uuid7s(100), randomness.uuid7()]
    assert made == sorted(made)
    assert {(each.version, each.variant) for each in made} == {(7, made[0].variant)}


def test_s2_clones_of_a_process_never_make_the_same_ids_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.time, "time_ns", lambda: 1_700_000_000_000_000_000)
    original = SystemRandomness()
    first = original.uuid7()
    clones = [copy(original) for _ in range(4)]
    made = [each.uuid7s(50) for each in (original, *clones)]
    assert len({first, *(each for ids in made for each in ids)}) == 1 + 5 * 50
    steps = {later.int - earlier.int for ids in made for earlier, later in pairwise(ids)}
    assert (len(steps), max(steps) > 2**40) == (5 * 49, True)
