"""Describe a violation as the story of one job, and sum up runs.

A mistake fails `tests/simulation/test_narrative.py`.
"""
