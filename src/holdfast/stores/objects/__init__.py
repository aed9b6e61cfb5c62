"""Jobs in one bucket: a book in memory, whose changes are written to one object under the condition that no other process wrote it.

Change freely: sizes and pauses. Do not change: that an answer leaves only after its write or a read, and that only a read decides what
became of a write.
A mistake fails `tests/contract/test_objects.py` or `tests/buckets`.
"""
