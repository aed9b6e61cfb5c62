"""Finds worlds that break and makes them small: decisions, deviations, enumeration, shrinking.

A mistake fails `tests/simulation/test_shrinking.py` or `test_small_worlds.py`.
"""
