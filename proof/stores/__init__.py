"""Stores of simulated worlds: in memory with a witness, with replicas, without a clock, and real SQLite and PostgreSQL.

Each writes a history of what it really did, which the checker compares with what it answered.
A mistake fails `tests/simulation/test_real_stores.py` or the contract, which these stores pass too.
"""
