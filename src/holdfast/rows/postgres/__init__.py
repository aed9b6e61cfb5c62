"""A user's table in PostgreSQL: `queries` are templates that `statements` fills with the table's names and types.

Change freely: plans and inspections. Do not change: claims skip locked rows, and each write names the fence of its claim.
A mistake fails `tests/rows`; a guard that no test misses fails `make mutants`.
"""
