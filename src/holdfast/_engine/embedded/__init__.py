"""Workers inside another program: `app.worker()` in its event loop, `app.run_due()` from a scheduler.

The same supervisor and worker as elsewhere, without child processes.
Change freely: how they start and stop. Do not change: the lease is renewed from a thread of its own, so that the user's loop cannot
starve it, and a blocked loop is known to be alive.
A mistake fails `tests/engine/embedded/test_embedded.py` or `test_run_due.py`.
"""
