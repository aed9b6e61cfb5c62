"""The HTTP API under ``/api/v1``: who may do what, how errors are answered, and the calls themselves. The broker serves it."""
