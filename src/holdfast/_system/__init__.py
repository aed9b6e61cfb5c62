"""This machine: clocks, processes, their channels, their death, the kernel's memory kills.

The only place that starts, watches and kills processes. `guard` is a stand-alone script that imports nothing of Holdfast.
Change freely: how processes are spawned and watched. Do not change: what counts as proof of death (`_core/identity`), and that the
guard kills a worker's session at the deadline even when its supervisor is frozen.
A mistake fails `tests/e2e/test_guard.py`, `test_crashes.py` or `test_memory_kills.py`.
"""
