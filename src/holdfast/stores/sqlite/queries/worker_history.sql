-- Return the last notes on the worker of this name, newest first.
SELECT worker, at, running, claimed, slots, memory, loop_lag, answered_at FROM holdfast_beats
WHERE worker = :worker
ORDER BY at DESC
LIMIT :limit;
