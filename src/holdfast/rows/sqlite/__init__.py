"""A user's table in a SQLite file: one writer at a time; Holdfast makes no table and no trigger there.

Change freely: plans and inspections. Do not change: stamps are compared only when their type and form are known (`forms`).
A mistake fails `tests/rows`, `tests/rows/test_stamps.py` first; a guard that no test misses fails `make mutants`.
"""
