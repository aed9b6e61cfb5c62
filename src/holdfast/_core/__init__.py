"""The words: pure values and functions. No I/O, no clock, no randomness, no asyncio."""
