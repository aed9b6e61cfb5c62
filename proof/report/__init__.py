"""Tells a violation as the story of one job, and sums up runs.

A mistake fails `tests/simulation/test_narrative.py`.
"""
