-- Microseconds until the first waiting job of these tasks that a claim would take is due: negative if one is.
-- $1 tasks, $2 queues or NULL, $3 whether last tries, $4 whether others
-- Of each range the first such, by the walk of due.sql.
WITH RECURSIVE clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
ranges AS (
    SELECT first.task, first.queue, first.priority
    FROM (SELECT DISTINCT unnest($1::text[]) AS task) AS known
    CROSS JOIN LATERAL (
        SELECT task, queue, priority FROM holdfast.pending
        WHERE state = 'available' AND task = known.task
        ORDER BY queue, priority
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT next.task, next.queue, next.priority
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT task, queue, priority FROM holdfast.pending
        WHERE state = 'available' AND task = ranges.task AND (queue, priority) > (ranges.queue, ranges.priority)
        ORDER BY queue, priority
        LIMIT 1
    ) AS next
)
SELECT (extract(epoch FROM min(first.available_at) - min(now)) * 1000000)::bigint AS wait
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND queue = ranges.queue AND priority = ranges.priority
        AND CASE
            WHEN claimable_until IS NULL THEN $4
            WHEN claimable_until = '-infinity' THEN $3
            ELSE $4 AND claimable_until > now
        END
    ORDER BY available_at
    LIMIT 1
) AS first
WHERE ($2::text[] IS NULL OR queue = ANY ($2)) AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
