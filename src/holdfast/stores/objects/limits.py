"""How large a store in a bucket may be: from which size on it is more than comfortable, and from which on it takes no new jobs."""

from typing import Final

from msgspec import Struct

ADDING: Final = frozenset(("enqueue", "enqueue_flow", "enqueue_member", "enqueue_after", "advance"))
"""The verbs that a full store refuses if they would add jobs. A job that settles may still add children, because it must end."""
MANY_JOBS: Final = 100_000
"""The jobs beyond which a check warns, without archived ones. Each takes about 2 KB of memory, and is read at the start."""
MANY_RUN_BYTES: Final = 128 * 1024 * 1024
"""The bytes of all runs before compression beyond which a check warns: a merge keeps them in memory."""
_MIB = 1024 * 1024


class Excess(Struct, frozen=True):
    """A limit that a store has reached, and what to do."""

    problem: str
    remedy: str


class Limits(Struct, frozen=True):
    """``jobs``: without archived ones. ``run_bytes``: of all runs before compression; a run of twice as many could not be read."""

    jobs: int = 1_000_000
    run_bytes: int = 512 * _MIB

    def excess(self, jobs: int, run_bytes: int) -> Excess | None:
        """Return the limit that a store of this size is beyond; ``None``: it takes new jobs."""
        return self.excess_of_jobs(jobs) or self.excess_of_runs(run_bytes)

    def excess_of_jobs(self, jobs: int) -> Excess | None:
        """Return what ``excess`` does, of the jobs."""
        if jobs <= self.jobs:
            return None
        remedy = "delete jobs, or use a PostgreSQL store"
        return Excess(f"more than its limit of {self.jobs:,} jobs, without archived ones", remedy)

    def excess_of_runs(self, run_bytes: int) -> Excess | None:
        """Return what ``excess`` does, of the runs."""
        if run_bytes <= self.run_bytes:
            return None
        problem = f"runs of {run_bytes:,} bytes before compression, and the limit is {self.run_bytes:,}"
        remedy = "run `holdfast store compact`, delete jobs, keep payloads and results small, or use a PostgreSQL store"
        return Excess(problem, remedy)


LIMITS: Final = Limits()
