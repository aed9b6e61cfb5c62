"""Protocols between the engine and everything outside it: stores, transports, the machine, clocks. No I/O, no asyncio.

`store` is the contract that every store keeps; each verb's docstring is its promise, and `StoreContract` of `testing` runs it.
A new verb is added here first, then in `_core/book`, then in the contract.
Do not change: what a verb promises about tokens and leases.
A mistake fails mypy, or `tests/contract`.
"""
