"""Judges histories of simulated and of real processes: one file for each group of promises.

Change freely: speed and the words of a violation. Do not change: unknown outcomes may have happened or not, and both must be right.
A rule that nothing breaks is no rule: add a mutant to `tests/simulation/mutants.py`.
"""
