"""Watching over tables that are not ours: rows are claimed, fenced and taken back, and stay where they are."""

from holdfast.rows.opening import open_table

__all__ = ["open_table"]
