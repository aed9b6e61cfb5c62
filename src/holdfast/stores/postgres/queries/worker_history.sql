-- Return the last notes on a worker, newest first.
-- :worker, its name; :limit.
SELECT worker, at, running, claimed, slots, memory, loop_lag, answered_at FROM holdfast.beats
WHERE worker = :worker
ORDER BY at DESC
LIMIT :limit
