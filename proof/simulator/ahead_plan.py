"""How many jobs the workers of a world claim ahead of their free slots."""

import random

SHARE = 0.25
"""The share of worlds in which they do so."""


def draw_ahead(numbers: random.Random) -> int:
    """Draw how many jobs each worker claims ahead; 0 in most worlds."""
    return numbers.choice([1, 3, 10]) if numbers.random() < SHARE else 0
