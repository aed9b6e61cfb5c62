"""PostgreSQL: connections by asyncpg and psycopg, their pool, their session settings, and the meaning of their errors.

Change freely: pool sizes and settings. Do not change: a connection whose state is unknown is never used again.
A mistake fails `tests/stores/test_postgres_network.py` or `tests/stores/test_postgres_pressure.py`.
"""
