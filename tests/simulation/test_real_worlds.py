"""The same worlds on real statements: no property breaks, a seed gives one history, and a broken statement is noticed."""

from collections.abc import Iterator

import pytest

from holdfast._core.job import State
from holdfast.stores.postgres.database import StoreDatabase
from holdfast.stores.sqlite.database import QUERIES
from proof.checker.history import JobRow
from proof.search.cases import broken_by
from proof.search.decisions import Strike
from proof.simulator.profiles import Brand
from proof.simulator.simulation import simulate


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("brand", "seeds"),
    [
        (Brand.SQLITE, range(2)),
        (Brand.POSTGRES, range(2)),
        pytest.param(Brand.SQLITE, range(2, 24), marks=pytest.mark.prove),
        pytest.param(Brand.POSTGRES, range(2, 16), marks=pytest.mark.prove),
    ],
)
def test_no_property_breaks_on_real_statements(brand: Brand, seeds: range) -> None:
    for seed in seeds:
        outcome = simulate(seed, brand=brand)
        assert outcome.is_clean, f"seed {seed}: {outcome.explain()}"


def test_the_start_of_jobs_claimed_ahead_is_seen_on_a_real_server_though_it_touches_no_row_of_a_job() -> None:
    outcome = simulate(5, brand=Brand.POSTGRES)
    starts = [
        event for event in outcome.history if event.what == "job" and event.by is not None and event.by.verb == "start_through"
    ]
    assert {(state_of(event.before), state_of(event.after)) for event in starts} == {(State.CLAIMED, State.RUNNING)}
    assert outcome.is_clean, outcome.explain()


def state_of(row: object) -> State:
    """Return the state in a row of a job."""
    assert isinstance(row, JobRow)
    return row.state


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seeds",
    [
        (6, 10),  # the first with members that add others
        pytest.param((8, 11, 12, 13, 15, 16), marks=pytest.mark.prove),  # 11, 13 and 15 with rows that a stranger locks
    ],
)
def test_no_property_breaks_in_workflows_on_a_real_server(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        outcome = simulate(seed, brand=Brand.POSTGRES, has_flows=True)
        assert outcome.is_clean, f"seed {seed}: {outcome.explain()}"
        assert any(event.what == "flow" for event in outcome.history)


@pytest.mark.parametrize(
    ("brand", "seed", "has_flows"),
    [
        (Brand.SQLITE, 4, False),
        *(pytest.param(Brand.POSTGRES, *each, marks=pytest.mark.prove) for each in ((4, False), (6, True))),
    ],
)
def test_a_seed_decides_everything_on_real_statements(brand: Brand, seed: int, has_flows: bool) -> None:
    first, second = (simulate(seed, brand=brand, has_flows=has_flows).history for _ in range(2))
    assert len(first) > 300
    assert first.digest() == second.digest()


@pytest.mark.parametrize(("brand", "seed", "strike"), [(Brand.SQLITE, 31, "lock_file"), (Brand.POSTGRES, 17, "lock_row")])
def test_a_foreign_session_locks_rows_of_a_server_and_the_whole_of_a_file(brand: Brand, seed: int, strike: str) -> None:
    outcome = simulate(seed, brand=brand)
    assert any(isinstance(each, Strike) and each.name == strike and each.whom for each in outcome.decisions)


@pytest.fixture
def _lease_ended_unseen() -> Iterator[None]:
    """Remove from the statement that ends a lease the check whether it was renewed or has run out."""
    query = QUERIES["end_lease"]
    intact = query.statement
    query.statement = intact.replace(":seen = renewals || ':' || expires_at", "1").replace(
        "expires_at < :monotonic, :is_overdue", "1, :is_overdue"
    )
    assert query.statement != intact
    yield
    query.statement = intact


@pytest.mark.usefixtures("_lease_ended_unseen")
def test_s5_a_statement_that_ends_a_living_lease_is_noticed_on_a_real_sqlite_file() -> None:
    assert any("S5" in broken_by(simulate(seed, brand=Brand.SQLITE)) for seed in (139, 306, 424, *range(38, 58)))


@pytest.fixture
def _lease_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the same check from PostgreSQL's statement."""
    sql = StoreDatabase._sql

    def broken(store: StoreDatabase, name: str) -> str:
        guard = "$4 = lease.renewals || ':' || extract(epoch FROM lease.expires_at) AND lease.expires_at < excluded.ended_at"
        text = sql(store, name)
        assert name != "end_lease" or guard in text
        return text.replace(guard, "$4 <> ''")

    monkeypatch.setattr(StoreDatabase, "_sql", broken)


@pytest.mark.prove
@pytest.mark.usefixtures("_lease_ended_early")
def test_s5_a_statement_that_ends_a_living_lease_is_noticed_on_a_real_server() -> None:
    assert any("S5" in broken_by(simulate(seed, brand=Brand.POSTGRES)) for seed in range(118, 160))
