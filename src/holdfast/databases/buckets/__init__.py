"""Buckets: the port to objects over obstore, one in memory for tests, and the probe of a server's conditions.

Change freely: time-outs and messages. Do not change: that no call is repeated, that only success and a read count, and that no error
carries what the server or the driver wrote.
A mistake fails `tests/buckets`.
"""
