"""Where jobs live: one package for each store. Stores never import each other.

Each verb of `_ports/store` is one write or one read here, and every guard stands in the write itself.
Change freely: plans, indexes, speed. Do not change: the token check, the lock order and the number of statements of a write.
A mistake fails `tests/contract`; a guard that no test misses fails `make mutants`.
"""
