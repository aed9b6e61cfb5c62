"""The parts of `StoreContract`, one file for each group of verbs. A test here runs on every store.

Change freely: scenes and helpers. A new promise of `_ports/store` gets its test here, not in a store's own tests.
"""
