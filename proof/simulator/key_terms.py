"""For how long the jobs of a world hold their unique keys."""

from msgspec import structs

from holdfast._core.job import NewJob
from holdfast._core.uniqueness import UNTIL_FINISHED, Uniqueness
from proof.simulator.plans import Plan


def with_terms(new: NewJob, plan: Plan) -> NewJob:
    """Return the job with the terms of its unique key: until it is finished, for a period, or until a worker claims it."""
    others = {"key 1": Uniqueness(seconds=plan.settings.timing.ttl), "key 2": Uniqueness(until_started=True)}
    return structs.replace(new, uniqueness=others.get(new.unique_key or "", UNTIL_FINISHED))
