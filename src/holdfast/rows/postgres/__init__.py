"""Watching over a table of PostgreSQL: claims that pass each other by, on the connections that stores use."""
