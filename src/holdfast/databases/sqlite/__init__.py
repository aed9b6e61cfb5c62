"""SQLite: one writer, its threads, its files, its transactions.

Change freely: waiting and messages. Do not change: which files prove that a connection still writes to the database at its path, and
that a commit is acknowledged only after both were checked.
A mistake fails `tests/stores/test_sqlite_database.py` or `tests/stores/test_sqlite_copies.py`.
"""
