"""How idle workers learn that there is work. A transport may drop, repeat and delay: only the store owns.

Change freely: anything that makes hints faster. Do not change: a hint carries ids only, and a worker that gets none still polls.
A mistake fails `tests/transports`, or an e2e test that cuts the transport.
"""
