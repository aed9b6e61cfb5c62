"""Vitals: how a store is kept, as gauges show it."""

from holdfast._core.policy import RETENTION_FLOOR, Policy
from holdfast._engine import store_defaults
from holdfast._ports.vitals import HasVitals
from holdfast.testing.contracts.scene import EARLY, Part, Scene, done, needs, story

SHORT = 60.0
LONG = 10 * RETENTION_FLOOR
LATE = 90.0


async def lag(at: Scene) -> float:
    """Return for how long the job that is pruned next has waited for that."""
    found = await store_defaults.vitals(at.store)
    assert found is not None
    assert found.schema_version > 0
    return found.prune_lag


async def unknown(at: Scene) -> None:
    """Check that a store that does not answer how it is kept is known as such."""
    assert await store_defaults.vitals(at.store) is None


class VitalsContract(Part):
    """What is promised about pruning that is behind."""

    @story
    @needs(HasVitals, unknown)
    async def test_the_lag_counts_from_when_the_job_that_is_pruned_next_could_be_pruned(self, at: Scene) -> None:
        first, other = [await at.running(policy=Policy(retention=each)) for each in (SHORT, LONG)]
        await at.settle(done(first), done(other))
        at.advance(SHORT - EARLY)
        assert await lag(at) == 0.0
        at.advance(EARLY + LATE)
        assert abs(await lag(at) - LATE) < 2 * EARLY
        assert (await at.store.prune(10)).stubs == 1
        assert await lag(at) == 0.0
        at.advance(RETENTION_FLOOR)
        assert abs(await lag(at) - SHORT - LATE) < 2 * EARLY
        assert (await at.store.prune(10)).jobs == 1
        assert await lag(at) == 0.0
