"""The application room: one task which tells how the code of any git repository evolved, killed or not.

`analysis.py` tells the story (clone → walk → count → report), `task.py` hands it to an App, `sample.py` makes a repository.
Nothing is imported here, so that a worker pays only for what it runs.
"""
