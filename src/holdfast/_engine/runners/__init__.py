"""How a handler runs: in the worker's event loop, in a thread, or in a separate process.

Each runner turns a handler's return value or exception into an `Outcome` (`outcomes`); it never writes to a store.
Change freely: pools and messages between a worker and its runner processes. Do not change: any exception becomes an outcome, and
the slot is freed even if the user's code misbehaves.
A mistake fails `tests/engine/runners`.
"""
