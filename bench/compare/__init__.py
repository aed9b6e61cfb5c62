"""Holdfast beside many peers, each in a separate environment: ``python -m bench.compare``."""
