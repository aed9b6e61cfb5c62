"""Find worlds that break a property and make them small: decisions, deviations, enumeration, shrinking.

A mistake fails `tests/simulation/test_shrinking.py` or `test_small_worlds.py`.
"""
