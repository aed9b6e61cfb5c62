"""What differs in a world whose jobs are in a bucket."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import structs

from holdfast.stores.objects.pieces import FULL
from proof.simulator.broker_plan import draw_brokers
from proof.simulator.profiles import Profile

if TYPE_CHECKING:
    from proof.simulator.plans import Plan

MOST_BACKLOG = 200


def fitted(plan: Plan) -> Plan:
    """Return the plan as a bucket allows it: it has no transactions, no worker claims ahead, and each process reads all rows."""
    if plan.profile is not Profile.OBJECTS:
        return plan
    numbers = random.Random(f"bucket {plan.chaos}")
    full, backlog = numbers.choice([1_000, 4_000, 16_000, FULL]), min(plan.backlog, MOST_BACKLOG)
    brokers = draw_brokers(random.Random(f"brokers {plan.chaos}"))
    return structs.replace(plan, full=full, backlog=backlog, brokers=brokers, has_hooks=False, ahead=0, longest_write=0.0)
