-- Return when the first waiting job of each range is due that a claim would take, in microseconds from now; as next_due.sql reads them.
-- :tasks; :queues, NULL: all; :normal and :isolated, which kinds of jobs.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
-- include task_ranges(256)
SELECT ranges.task, ranges.queue, ranges.key, (extract(epoch FROM first.available_at - now) * 1000000)::bigint AS wait
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND priority = ranges.priority AND queue = ranges.queue AND key = ranges.key
        AND -- include claimable(pending, now)
    ORDER BY available_at
    LIMIT 1
) AS first
WHERE ranges.is_open
