"""What people do to jobs and to the store: cancel, retry, delete, pause, purge, check, back up, recover by hand.

Each verb is one write of the store, judged there; these functions add selection, events and remedies.
Change freely: messages and checks. Do not change: a running job is asked to stop, never rewritten under its owner.
A mistake fails `tests/engine/operators/test_operators.py` or `test_check.py`, and S4 in `tests/e2e/test_operators_at_random.py`.
"""
