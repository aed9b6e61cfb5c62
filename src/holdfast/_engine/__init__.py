"""What Holdfast does, over ports: client, tasks, runners, rows, worker, supervisor, embedded, operators.

The engine knows no database and no operating system. Packages import downwards, in the order of the contract in `.importlinter`.
Change freely: anything inside one package. Do not change: decisions belong to `_core`, statements to `stores`.
A mistake fails `tests/engine`; a broken promise fails `tests/simulation`.
"""
