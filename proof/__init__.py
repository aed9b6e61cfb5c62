"""The proof laboratory: it runs the real engine under drawn faults and judges the history. It is not in the wheel.

`simulator` runs worlds, `stores` are the stores of those worlds, `checker` judges histories, `search` finds and shrinks failing worlds,
`report` describes them.
`python -m proof.simulate` and `python -m proof.enumerate` run it. A mistake here hides mistakes elsewhere: every rule of the checker has a
mutant that must be caught (`tests/simulation/test_mutants.py`).
"""
