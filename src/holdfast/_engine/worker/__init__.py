"""One worker: claims jobs, runs their handlers, settles their outcomes.

`exchange` is the only place that claims and settles, in one write; `executor` starts and stops handlers; `slots` counts the free ones.
Change freely: pauses, grouping, reports. Do not change: an outcome is written under the token of its claim, and code whose lease was
lost is stopped before anything else happens.
A mistake fails `tests/engine/worker/test_exchange.py` or `test_worker.py`; a claim too many fails S1 in `tests/simulation`.
"""
