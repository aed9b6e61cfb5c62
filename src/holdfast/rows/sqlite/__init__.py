"""Watching over a table in a SQLite file of the user's: one writer at a time, and nothing of ours is made there."""
