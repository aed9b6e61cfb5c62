"""Metrics for Prometheus: what tallies counted, gauges of workers and of the store, and the server that a supervisor opens for them.

Change freely: gauges and their reads. Do not change: names, types and labels of `_core/metrics.py`, which dashboards and alerts use.
Nothing here is loaded unless metrics are asked for. A mistake fails `tests/metrics`.
"""
