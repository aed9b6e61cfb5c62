"""Workflows: jobs whose work is other jobs.

`builder` makes the graph of a new workflow and checks it before anything is stored; `fitting` decides whether a result can be a
parameter. The rules of running graphs are pure functions in `_core/graph`; each store applies them in the write that moves a member.
Change freely: messages and limits of the builder. Do not change: a graph is stored in one write, and only after all its checks.
A mistake fails `tests/engine/workflows`.
"""
