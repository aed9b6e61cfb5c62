"""Jobs in PostgreSQL: tables in a separate schema, one file of `queries` for each statement.

`moves` enqueues, claims, settles and rescues; `leases` has the verbs of leases; `partitions` makes and drops the days of finished jobs.
Change freely: anything that keeps plans and answers. Do not change: rows are locked before they are judged (`SKIP LOCKED`), in the same
order everywhere; migrations that are released.
A mistake fails `tests/contract/test_postgres.py`, `tests/stores/test_postgres_*.py`, or `test_postgres_plans.py` at a million rows.
"""
