"""Judge histories of simulated and of real processes: one file for each group of promises.

Change freely: speed and the words of a violation. Do not change: a call with an unknown outcome may have happened or not, and the
checker accepts both. A rule that nothing breaks does not prove anything: add a mutant to `tests/simulation/mutants.py`.
"""
