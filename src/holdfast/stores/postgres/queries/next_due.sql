-- Return the microseconds until the first waiting job of these tasks that a claim without limits would take is due: negative if one is
-- due. Return also whether any job waits, whether ranges were left out, and whether there are limits.
-- :tasks; :queues, NULL: all; :normal and :isolated, which kinds of jobs.
-- It reads the first such job of each range, by the walk of due.sql. It is a hint, so that it looks at no more than 256 ranges of a task.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
-- include task_ranges(256)
SELECT (extract(epoch FROM min(first.available_at) - min(now)) * 1000000)::bigint AS wait,
    EXISTS (SELECT FROM ranges) AS has_waiting, EXISTS (SELECT FROM ranges WHERE nth = 256) AS is_cut, EXISTS (SELECT FROM holdfast.limits) AS has_limits
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND priority = ranges.priority AND queue = ranges.queue AND key = ranges.key
        AND -- include claimable(pending, now)
    ORDER BY available_at
    LIMIT 1
) AS first
WHERE ranges.is_open
