"""The variants of the protocol of which it is promised that the simulation notices them, in the words of the promise."""

from tests.simulation.mutants import MUTANTS

PROMISED = (
    "settle by id only",
    "settle by state only",
    "settle by worker name",
    "beat unfenced",
    "progress unfenced",
    "rescue without re-judging",
    "rescue by start age",
    "worker's wall clock sets the expiry",
    "no self-stop",
    "settle not idempotent",
    "claim not atomic",
    "crash not counted",
    "child enqueue outside the settle",
    "hint as the only wake-up",
    "amnesty missing",
    "claim number reset by an operator's retry",
    "audit after a lost claim answer missing",
    "token without the claim id",
    "lease not ended before its claims move",
    "enqueue without a receipt",
    "cancel that misses a moving job",
    "settle before the code has stopped",
    "other supervisors judge as early as the owner",
    "siblings charged for a culprit",
)


def test_each_promised_mutant_is_in_the_table_once() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert {name: names.count(name) for name in PROMISED} == dict.fromkeys(PROMISED, 1)
    assert len(PROMISED) == 24


def test_each_mutant_names_what_it_breaks() -> None:
    assert not [mutant.name for mutant in MUTANTS if not mutant.breaks.endswith(".")]
