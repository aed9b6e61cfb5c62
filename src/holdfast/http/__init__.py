"""The HTTP API under ``/api/v1``: the roles of senders, the answers to errors, and the calls themselves. The broker serves it."""
