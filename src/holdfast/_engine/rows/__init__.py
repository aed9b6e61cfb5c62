"""`app.rows`: handlers that work on batches of rows of a user's own table.

`scheduler` looks for claimable and stuck rows and enqueues runs; `run` claims batch after batch; `batch` is what the handler gets.
The statements live in `holdfast.rows`. Change freely: batch sizes, pauses, reports. Do not change: every write names the fence of
its claim, and a batch shrinks after each failure, so one bad row is found alone.
A mistake fails `tests/engine/rows`, `tests/rows` or the watched tables of `tests/simulation`.
"""
