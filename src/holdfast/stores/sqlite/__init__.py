"""Jobs in one SQLite file on a local disk, shared by all processes of one machine.

Each write is one statement on a view. The view's trigger does the rest inside the statement, so no Python runs while the file is locked.
Change freely: packing of parameters, plans. Do not change: triggers check tokens and leases; times come from the machine's boot clock.
A mistake fails `tests/contract/test_sqlite.py`, `tests/stores/test_sqlite_*.py`, or `make mutants`.
"""
