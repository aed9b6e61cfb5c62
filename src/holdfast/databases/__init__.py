"""Connections to databases: pools, transactions, threads, errors. No jobs and no rows are known here.

`stores` and `rows` bring the statements; this room runs them. `wrapped` finds the driver's connection inside SQLAlchemy's and Django's.
Change freely: pool sizes, session settings, wording. Do not change: which errors mean "no answer, it may have happened" and which mean
"the server refused" – the engine sends again after the first and never after the second.
A mistake fails `tests/stores/test_postgres_*.py`, `test_sqlite_*.py` or the contracts.
"""
