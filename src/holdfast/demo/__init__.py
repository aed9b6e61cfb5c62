"""The demonstration: a long job, lines per language of a git repository, whose worker is killed half-way.

`show` plays it with the workers of `supervisors`, `task` and `analysis` are the job, `chart` its picture, `sample` makes a repository.
Nothing is imported here, so that a worker pays only for what it runs. A larger analysis is in `examples/code_evolution`.
Change freely. A mistake fails `tests/demo`.
"""
