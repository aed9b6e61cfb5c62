"""The times within which a world must do what it promises, from the settings of its supervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.stores.objects.election import LEADER_TTL, LOOK
from holdfast.stores.objects.routed_store import LONGEST

if TYPE_CHECKING:
    from proof.simulator.plans import Plan

CALLS = 6  # that it takes to recover the jobs of a worker
OPERATION = 2.0  # one round of store calls on a healthy connection


def fail_over(plan: Plan) -> float:
    """Return the seconds from the end of a leading broker until all processes are with the next one: its silence, a look of that one and of
    a client, and the longest pause of a client."""
    return 0.0 if plan.brokers is None or plan.is_live else LEADER_TTL + 2 * LOOK + LONGEST


def recovery(plan: Plan, interval: float) -> tuple[float, float]:
    """Return the bound of a recovery beside its ttls, and the ttls. ``interval``: the longest between two looks for leases.

    Without a clock that applies, a supervisor must have watched a lease for as long, without a change: in a bucket, after an election, and
    after a power loss beside a file.
    """
    is_file_cut = plan.brand == "sqlite" and "lose_power" in plan.strikes
    is_watched = is_file_cut or has_elections(plan)
    bound = plan.step + interval * (1 + is_watched) + OPERATION
    return bound, 2.001 if is_watched or plan.lease_clock == "none" else 1.001


def has_elections(plan: Plan) -> bool:
    """Return whether another primary may take over, whose clock is another one."""
    return plan.profile == "mongodb" and "lose_quorum" in plan.strikes


def early(plan: Plan) -> float:
    """Return the seconds in which a lease that was watched may end before it runs out by the store's clock, which has stepped."""
    return plan.step + plan.rate_error * plan.longest_ttl if has_elections(plan) else 0.0


def local_bound(plan: Plan, latency: float) -> float:
    """Return the seconds within which a living supervisor returns the jobs of one of its workers that has died.

    Where connections are few, the recoveries of all workers that die together wait for them.
    """
    return 1.0 + CALLS * latency * (plan.processes if plan.connections else 1)


def outage_calls(plan: Plan) -> tuple[float, float]:
    """Return how many calls a process may send in any outage, and how many more in each of its seconds.

    A supervisor calls eleven verbs, each up to 7 times in the first 3 s, then twelve times in all per interval of its recovery. It
    recovers dead workers, and new ones ask for leases.
    """
    interval = min(min(each.recovery_interval, each.timing.ttl / 5) for each in plan.all_settings)
    return 77.0, 12.0 / interval + 4.0 * plan.processes


def tick_bound(plan: Plan, recovery: float, latency: float) -> float | None:
    """Return the seconds within which a due tick fires. After an outage, calls may be under way, and the service may pause."""
    if plan.schedules is None or not plan.is_timed:
        return None
    bound = plan.schedules.bound(plan.settings.poll_interval) + plan.step + OPERATION + 2 * CALLS * latency
    return bound + (0.0 if plan.is_live else recovery + 1.0 + plan.mix.timeout + 2 * plan.mix.slowest) + fail_over(plan)


def void_bound(plan: Plan, recovery: float, latency: float) -> float | None:
    """Return the seconds within which claims of a blocked worker are voided: it is pinged once a beat."""
    if not plan.ahead or not plan.is_timed:
        return None
    pings = max(each.void_after + each.timing.beat for each in plan.all_settings)
    return pings + recovery + OPERATION + 2 * CALLS * latency
