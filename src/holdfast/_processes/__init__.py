"""Entry points of child processes: a worker, and a runner for one `process=True` handler at a time.

They load the user's App, open their channel and hand over to the engine; they sit above `app`, which they import.
Change freely: logs and how an App is found. Do not change: these modules import neither click nor rich nor sqlite3, so that a worker
starts fast and small.
A mistake fails `tests/cli/test_process.py`.
"""
