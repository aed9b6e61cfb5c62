"""The supervisor: starts workers, renews their leases, kills them at the deadline, recovers the jobs of dead workers.

`recovery` ends leases and rescues jobs, of this machine's workers and of all others; `limits` watches progress and timeouts.
Change freely: maintenance steps, relays, pauses. Do not change: a lease is ended only with proof of death, or after it ran out on the
store's clock. It is judged only after contact with the store was unbroken for long enough.
A mistake fails `tests/engine/supervisor/test_recovery.py` or `test_supervisor.py`; S5, S8 and S9 in `tests/simulation`.
"""
