"""Holdfast: background jobs that survive the death of the process that runs them."""

__all__: list[str] = []
