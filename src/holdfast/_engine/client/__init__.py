"""The producer's side: enqueue, read, wait for results.

Concurrent enqueues share one write (`group_commit`); a call that got no answer is sent again under the same id, so it takes effect once.
Change freely: how calls are grouped, what a `Handle` offers. Do not change: the call id is made before the first try and stays.
A mistake fails `tests/engine/client/test_client.py`; a job enqueued twice fails S13 in `tests/simulation`.
"""
