"""Tasks: the user's functions with their names, types and options, and the context they run in.

Nothing here calls a store. `registry` finds tasks by name, `options` checks what the user gave, `context` is `job` in a handler.
Change freely: options and messages. Do not change: a task's name and its payload type are what stored jobs refer to.
A mistake fails `tests/engine/tasks/test_registry.py`, `test_options.py` or `test_context.py`.
"""
