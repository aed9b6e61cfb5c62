"""The demonstration: one task which analyzes how the code of any git repository evolved, killed or not.

`analysis.py` does the work (clone → walk → count → report), `task.py` adds it to an App, `sample.py` makes a repository.
Nothing is imported here, so that a worker pays only for what it runs.
"""
