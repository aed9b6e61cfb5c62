"""Connections to databases: pools, transactions, threads, errors. This package knows neither jobs nor rows.

`stores` and `rows` bring the statements; this package runs them. `wrapped` finds the driver's connection inside those of SQLAlchemy and
Django.
Change freely: pool sizes, session settings, wording. Do not change: which errors mean "no answer, it may have happened" and which mean
"the server refused" – the engine sends again after the first and never after the second.
A mistake fails `tests/stores/test_postgres_*.py`, `test_sqlite_*.py` or the contracts.
"""
