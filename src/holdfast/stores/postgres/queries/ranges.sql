-- Return the ranges, (task, queue, priority), in which jobs are due, and whether a lease is isolated.
-- :tasks; :queues, NULL: all; :most, because of more only the first could be claimed;
-- :normal and :isolated, which kinds of jobs; :lease.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

-- include ranges()

SELECT task, queue, priority, (SELECT lease.is_isolated FROM holdfast.leases AS lease WHERE lease.id = :lease) AS is_isolated
FROM walk
WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
ORDER BY priority, due_at, due
LIMIT :most;
