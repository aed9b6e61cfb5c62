"""Holdfast beside other libraries: metrics, traces and error reports in their own way.

Each module needs its library, and is loaded only by the program that imports it. Change freely: what is shown.
Do not change: that a payload is never shown, and that nothing here can break a job. A mistake fails `tests/integrations`.
"""
