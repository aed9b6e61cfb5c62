"""Small worlds of two brokers, exhaustively: no deposed broker answers, and no lease of a living owner is ended across a takeover."""

from uuid import UUID

import pytest

from holdfast.stores.objects.election import LEADER_TTL, RESERVE, Election, Phase
from tests.stores.election_world import BROKERS, World, explore, led

ME, OTHER = BROKERS


class Reapplying(Election):
    """A mutant: it registers again after a lost race."""

    insists = False

    def lose(self) -> None:
        self.insists = True

    def observe(self, version: int, epoch: int, broker: UUID | None, *, asked: float, received: float) -> None:
        super().observe(version, epoch, broker, asked=asked, received=received)
        if self.insists and self.phase is Phase.FOLLOW:
            self.insists, self.phase = False, Phase.CHALLENGE


class AnsweringAlways(Election):
    """A mutant: it answers from memory for as long as it knows of no other broker."""

    def may_answer(self, now: float) -> bool:
        return self.phase is Phase.LEAD and not self._is_in_doubt


def test_o3_o4_s5_every_order_of_looks_takeovers_faults_and_pauses() -> None:
    for world, depth in ((World(Election), 6), (led(Election), 5)):
        count, broken = explore(world, depth)
        assert broken is None
        assert count > 1000


@pytest.mark.parametrize(
    ("world", "broken"),
    [
        (World(Reapplying), "O3: a deposed broker answers"),
        (led(AnsweringAlways), "O3: a deposed broker answers"),
        (led(Election, keeps_sightings=True), "S5, O4: a lease was ended while its owner goes on"),
    ],
    ids=["registration applied again", "answers without leadership", "sightings kept over a takeover"],
)
def test_mutants_are_found_in_the_same_worlds(world: World, broken: str) -> None:
    assert explore(world, 7)[1] == broken


def read(election: Election, version: int, epoch: int, broker: UUID | None, at: float) -> Phase:
    election.observe(version, epoch, broker, asked=at, received=at)
    return election.phase


def test_a_challenger_waits_until_the_version_has_stood_for_the_whole_time() -> None:
    election = Election(ME)
    assert read(election, 1, 1, OTHER, 0.0) is Phase.FOLLOW
    assert read(election, 2, 1, OTHER, 11.0) is Phase.FOLLOW
    assert read(election, 2, 1, OTHER, 11.0 + LEADER_TTL - 0.1) is Phase.FOLLOW
    assert read(election, 2, 1, OTHER, 11.0 + LEADER_TTL) is Phase.CHALLENGE
    election.lose()
    assert read(election, 3, 2, OTHER, 30.0) is Phase.FOLLOW


def test_a_read_that_took_long_shows_nothing_of_the_time_in_between() -> None:
    election = Election(ME)
    election.observe(1, 1, OTHER, asked=0.0, received=10.0)
    election.observe(1, 1, OTHER, asked=13.0, received=23.0)
    assert election.phase is Phase.FOLLOW


@pytest.mark.parametrize("broker", [None, ME])
def test_no_leader_or_ones_own_late_registration_is_challenged_at_once(broker: UUID | None) -> None:
    assert read(Election(ME), 1, 7, broker, 0.0) is Phase.CHALLENGE


def test_leadership_counts_from_the_sending_of_the_last_commit() -> None:
    election = Election(ME)
    read(election, 1, 0, None, 0.0)
    election.land(2, 1, sent=5.0)
    last = 5.0 + LEADER_TTL - RESERVE
    assert election.may_answer(last - 0.1)
    assert not election.may_answer(last)
    assert (election.phase, election.leads) == (Phase.LAPSE, True)
    assert not election.may_answer(last - 0.1)
    election.land(3, 1, sent=20.0)
    assert election.may_answer(20.0)


def test_a_commit_in_doubt_stops_answers_until_another_one_lands_or_it_can_land_no_more() -> None:
    election = Election(ME)
    election.land(2, 1, sent=5.0)
    election.doubt()
    assert not election.may_answer(6.0)
    assert read(election, 2, 1, ME, 6.0) is Phase.LEAD
    assert not election.may_answer(6.0)
    read(election, 3, 1, ME, 7.0)
    assert election.may_answer(7.0)


@pytest.mark.parametrize(("epoch", "broker"), [(2, OTHER), (2, ME), (1, OTHER), (2, None)])
def test_any_other_id_or_epoch_deposes(epoch: int, broker: UUID | None) -> None:
    election = Election(ME)
    election.land(2, 1, sent=5.0)
    read(election, 3, epoch, broker, 6.0)
    assert not election.leads
    assert not election.may_answer(6.0)
