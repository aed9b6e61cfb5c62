-- The first jobs of these tasks that a claim would take now, in its order, due for long enough.
-- $1 tasks, $2 queues or NULL, $3 whether normal jobs, $4 whether isolated ones, $5 microseconds, $6 how many
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
-- include task_ranges($1)
SELECT first.id, queue, first.claim_number
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT id, claim_number, available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND queue = ranges.queue AND priority = ranges.priority
        AND available_at <= now - $5::bigint * interval '1 microsecond'
        AND -- include claimable(pending, $3, $4, now)
    ORDER BY available_at, id
    LIMIT $6
) AS first
WHERE ($2::text[] IS NULL OR queue = ANY ($2)) AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
ORDER BY priority, available_at, id
LIMIT $6
