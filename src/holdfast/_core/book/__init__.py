"""The reference store without clock, lock or asyncio: ``book`` has its verbs, ``state`` its tables."""
