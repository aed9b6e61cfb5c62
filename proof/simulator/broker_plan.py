"""The brokers of a world whose jobs are in a bucket."""

import random

from msgspec import Struct

SHARE = 1 / 3


class BrokersPlan(Struct, frozen=True):
    """How many brokers there are. ``is_required``: without one, no other process writes or deposes one that is silent."""

    brokers: int
    is_required: bool = False


def draw_brokers(numbers: random.Random) -> BrokersPlan | None:
    """Draw them; most worlds have none."""
    if numbers.random() >= SHARE:
        return None
    return BrokersPlan(numbers.choice((1, 2, 2, 3)), is_required=numbers.random() < 0.3)
