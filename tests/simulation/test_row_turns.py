"""Every verdict of the checker on watched tables: by name, a history in which it holds and one in which not."""

import random

import pytest

from proof.checker.history import History
from proof.checker.verdicts import Rules, TableRules
from proof.simulator.plans import WATCHED, draw
from proof.simulator.simulation import simulate
from tests.simulation.hand_made_histories import Tale

TABLE = TableRules(stale_after=10.0, late=2.0, max_resets=1, poison=(7,))
OPEN = Rules(is_complete=False, table=TABLE)
WHOLE = Rules(table=TABLE)
CALM = Rules(table=TableRules(stale_after=10.0, late=2.0))


def due() -> Tale:
    """A row is pending."""
    return Tale().parcel("insert", "new")


def claimed() -> Tale:
    """The row is in progress under the first fence."""
    return due().parcel("claim", "busy", "first")


def failed(resets: int) -> Tale:
    """The row is not poison, is reset that many times, and fails."""
    return claimed().later(20).parcel("reset", "failed", held=20.0, resets=resets)


PAIRS: dict[str, tuple[str, Rules, Tale, Tale]] = {
    # what must hold, the rules, a history in which it holds and one in which it does not
    "a row that is claimed is nobody's": (
        "S1",
        OPEN,
        claimed().later(20).parcel("reset", "new", held=20.0, resets=1).parcel("claim", "busy", "second"),
        claimed().parcel("claim", "busy", "second"),
    ),
    "a row that has no stamp is given one": (
        "S1",
        OPEN,
        Tale().parcel("insert", "busy").parcel("adopt", "busy", "stamp"),
        Tale().parcel("insert", "busy").parcel("renew", "busy", "stamp"),
    ),
    "a row is moved under its fence": (
        "S3",
        OPEN,
        claimed().parcel("move", "done", under="first"),
        claimed().parcel("move", "done", under="second"),
    ),
    "a row is released under its fence": (
        "S3",
        OPEN,
        claimed().parcel("move", "new", under="first"),
        claimed().parcel("move", "new", under="second"),
    ),
    "a row that nobody has claimed is not finished": (
        "S3",
        OPEN,
        claimed().parcel("transaction", "done", under="first"),
        due().parcel("transaction", "done", under="first"),
    ),
    "a row that is done stays done": (
        "S4",
        OPEN,
        claimed().parcel("move", "done", under="first"),
        claimed().parcel("move", "done", under="first").parcel("reset", "new"),
    ),
    "a row is taken back only from who had it for too long": (
        "S5",
        OPEN,
        claimed().later(11).parcel("reset", "new", held=11.0, resets=1),
        claimed().later(9).parcel("reset", "new", held=9.0, resets=1),
    ),
    "an effect is committed with its row": (
        "S7",
        OPEN,
        claimed().parcel("transaction", "done", under="first", effects=1),
        claimed().parcel("transaction", "busy", "first", effects=1),
    ),
    "an effect is committed once": (
        "S7",
        OPEN,
        claimed().parcel("transaction", "done", under="first", effects=1),
        claimed().parcel("transaction", "done", under="first", effects=2),
    ),
    "a row that is stuck is taken back soon": (
        "L2",
        OPEN,
        claimed().later(11).parcel("reset", "new", held=11.0, resets=1),
        claimed().later(13).parcel("reset", "new", held=13.0, resets=1),
    ),
    "a row that is renewed is not stuck": (
        "L2",
        OPEN,
        claimed().later(9).parcel("renew", "busy", "first").later(9).parcel("move", "done", under="first"),
        claimed().later(18).parcel("move", "done", under="first"),
    ),
    "each row comes to an end": ("L2", CALM, claimed().parcel("move", "done", under="first"), claimed()),
    "rows that are poison stop no other": ("L4", WHOLE, claimed().parcel("move", "done", under="first"), claimed()),
    "only poison fails, or what was taken back too often": ("L4", WHOLE, failed(2), failed(0)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_checker_knows_of_a_watched_table_whether(name: str) -> None:
    wanted, rules, good, bad = PAIRS[name]
    assert not bad.check(rules).verdict(wanted)
    assert good.check(rules).verdict(wanted), good.check(rules).explain(History(good.events))


def test_before_the_calm_no_row_is_stuck() -> None:
    rules = Rules(is_complete=False, is_always_calm=False, table=TABLE)
    late = claimed().later(90).parcel("reset", "new", held=90.0, resets=1)
    assert late.check(rules).verdict("L2")
    assert not claimed().calm().later(90).parcel("reset", "new", held=90.0, resets=1).check(rules).verdict("L2")


def test_a_world_without_a_watched_table_judges_none() -> None:
    assert claimed().check(Rules()).verdict("L2")


@pytest.mark.prove
def test_worlds_with_a_watched_table_show_each_verb_and_each_end() -> None:
    plans = ((seed, draw(random.Random(seed))) for seed in range(120))
    shown = set[str]()
    for seed in [seed for seed, plan in plans if plan.rows is not None][:16]:
        outcome = simulate(seed)
        assert outcome.is_clean, outcome.explain()
        shown |= {f"{event.by.verb} {event.after.status}" for event in outcome.history if event.what == "row"}  # type: ignore[union-attr]
    ends = {f"{verb} done" for verb in ("move", "transaction")} | {f"{verb} failed" for verb in ("move", "reset")}
    assert ends | {"claim busy", "renew busy", "adopt busy", "reset new", "move new"} <= shown


def test_a_share_of_the_worlds_has_a_watched_table() -> None:
    plans = [plan for plan in (draw(random.Random(seed)) for seed in range(1000)) if plan.mode in WATCHED]
    assert 0.15 < sum(plan.rows is not None for plan in plans) / len(plans) < 0.25
