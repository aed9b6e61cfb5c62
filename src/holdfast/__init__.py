"""Holdfast: background jobs that survive the death of the process that runs them."""

from holdfast._engine.context import Job as Job, SyncJob as SyncJob

__all__: list[str] = []
