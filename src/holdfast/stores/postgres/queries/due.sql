-- Return the first jobs of these tasks that a claim would take now, most urgent and oldest first, if they are due for long enough.
-- :tasks; :queues, NULL: all; :normal and :isolated, which kinds of jobs;
-- :age in microseconds, how long they have been due at least; :limit.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
-- include task_ranges(2147483647)
SELECT first.id, queue, first.claim_number
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT id, claim_number, available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND priority = ranges.priority AND queue = ranges.queue AND key = ranges.key
        AND available_at <= now - :age::bigint * interval '1 microsecond'
        AND -- include claimable(pending, now)
    ORDER BY available_at, id
    LIMIT :limit
) AS first
WHERE ranges.is_open
    AND NOT -- include is_limited(ranges.task, ranges.queue)
ORDER BY priority, available_at, id
LIMIT :limit
