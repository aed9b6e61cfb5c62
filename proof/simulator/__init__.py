"""Worlds drawn from a seed: processes with the real engine, a clock that moves, faults around every call.

Change freely: new faults and kinds of worlds, with a separate draw at the end, so that older seeds stay the same.
A mistake fails `tests/simulation/test_seeds.py` or `test_kept.py`.
"""
