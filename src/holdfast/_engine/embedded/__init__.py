"""Workers inside another program: `app.worker()` in its event loop, `app.run_due()` from a scheduler.

They use the same supervisor and worker as `holdfast worker`, without child processes.
Change freely: how they start and stop. Do not change: a separate thread renews the lease, so that the user's loop cannot starve
it, and a worker in a blocked loop counts as alive.
A mistake fails `tests/engine/embedded/test_embedded.py` or `test_run_due.py`.
"""
