-- Ranges, (task, queue, priority), of the tasks $1 and queues $2 (NULL: all) in which jobs are due: at most $3, because of
-- more only the first could be claimed. $4 and $5: which kinds of tries. And whether the lease $6 runs one job alone.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

-- include ranges($1, $2, $4, $5, $3)

SELECT task, queue, priority, (SELECT lease.is_isolated FROM holdfast.leases AS lease WHERE lease.id = $6) AS is_isolated
FROM walk
WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
ORDER BY priority, due_at, due
LIMIT $3;
