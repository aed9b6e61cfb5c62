"""A worker goes round lanes from claim to claim, and alternates between lanes without and with limits while there are any."""

from uuid import UUID

import pytest

from holdfast._core.answers import ExchangeAnswer
from holdfast._core.job import Claim
from holdfast._core.lanes import Cursor, Turn
from holdfast._core.requests import ClaimKind, ClaimRequest
from holdfast._engine.tasks.registry import define
from holdfast._engine.worker.claim_turns import ClaimTurns
from tests.engine.support import claim

ONE, OTHER = (Turn(0, "a", ""),), (Turn(0, "b", ""),)


async def work() -> None: ...


CLAIM = claim(define(work))


class Claims:
    """The claims of a worker with ten slots, answered by the test."""

    def __init__(self) -> None:
        self.turns = ClaimTurns()

    def answer(
        self,
        found: int = 0,
        *,
        cursor: Cursor = (),
        has_limited: bool = True,
        is_whole: bool = True,
        frees: bool = False,
        ahead: int = 0,
    ) -> ClaimKind:
        """Answer the next claim; return its kind."""
        kind, claims = ClaimKind.PLAIN if ahead else self.turns.kind, tuple[Claim, ...]([CLAIM] * found)
        request = ClaimRequest(
            lease=UUID(int=1),
            claim=UUID(int=2),
            tasks={},
            limit=0 if ahead else 10,
            prefetch=ahead,
            cursor=self.turns.cursor,
            kind=kind,
        )
        answer = ExchangeAnswer(claims=claims, cursor=cursor, is_whole=is_whole, has_limited=has_limited)
        self.turns.answered(request, answer, frees=frees)
        return kind


def test_claims_of_both_kinds_alternate_while_there_are_limits() -> None:
    claims = Claims()
    assert [claims.answer(10).value for _ in range(4)] == ["plain", "limited", "plain", "limited"]
    assert [claims.answer(10, has_limited=False).value for _ in range(3)] == ["plain"] * 3


def test_claims_alternate_also_when_one_kind_always_fills_all_slots() -> None:
    claims = Claims()
    assert [claims.answer(0 if place % 2 else 10).value for place in range(4)] == ["plain", "limited", "plain", "limited"]


def test_a_claim_ahead_that_takes_nothing_does_not_count_as_a_turn_of_the_lanes_without_limits() -> None:
    claims = Claims()
    kinds = []
    for _ in range(4):
        kinds.append(claims.answer(10).value)
        claims.answer(ahead=10)
    assert kinds == ["plain", "limited", "plain", "limited"]
    assert claims.turns.asks_again


def test_a_claim_ahead_that_takes_jobs_is_a_turn_of_the_lanes_without_limits() -> None:
    claims = Claims()
    claims.answer(10, has_limited=False)
    claims.answer(10, ahead=10)
    assert claims.turns.kind is ClaimKind.LIMITED


def test_the_first_limit_is_claimed_from_at_once_and_the_last_one_is_forgotten() -> None:
    claims = Claims()
    claims.answer(has_limited=False)
    assert not claims.turns.asks_again
    claims.answer(has_limited=True)
    assert (claims.turns.asks_again, claims.turns.kind) == (True, ClaimKind.LIMITED)
    claims.answer(has_limited=False)
    assert (claims.turns.asks_again, claims.turns.kind) == (False, ClaimKind.PLAIN)


def test_each_kind_goes_on_from_its_own_cursor() -> None:
    claims = Claims()
    claims.answer(10, cursor=ONE)
    claims.answer(10, cursor=OTHER)
    assert claims.turns.cursor == ONE
    claims.answer(10, cursor=())
    assert claims.turns.cursor == OTHER


def test_a_worker_asks_again_until_both_kinds_have_been_looked_at() -> None:
    claims = Claims()
    assert claims.turns.asks_again
    claims.answer(3)
    assert claims.turns.asks_again
    claims.answer(0)
    assert not claims.turns.asks_again
    claims.turns.rest()
    assert claims.turns.asks_again


@pytest.mark.parametrize(("found", "is_whole"), [(10, True), (0, False)])
def test_a_full_claim_or_one_that_left_lanes_out_is_followed_by_another(found: int, is_whole: bool) -> None:
    claims = Claims()
    claims.answer()
    claims.answer(found, is_whole=is_whole)
    claims.answer()
    assert claims.turns.asks_again
    claims.answer()
    assert not claims.turns.asks_again


def test_limited_lanes_are_looked_at_again_after_a_job_has_freed_its_slots() -> None:
    claims = Claims()
    claims.answer()
    claims.answer()
    assert claims.answer(frees=True) is ClaimKind.PLAIN
    assert (claims.turns.asks_again, claims.turns.kind) == (True, ClaimKind.LIMITED)
    claims.answer(frees=True)
    assert not claims.turns.asks_again
