"""Connections of Django's in a thread that runs one handler after the other."""

from django.db import close_old_connections, reset_queries


def prepare() -> None:
    """Do what Django does before a request: forget the queries that DEBUG keeps, and close connections that are past their age."""
    reset_queries()
    close_old_connections()
