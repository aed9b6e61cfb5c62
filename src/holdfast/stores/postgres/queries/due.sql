-- The first jobs of these tasks that a claim would take now, in its order, due for long enough.
-- $1 tasks, $2 queues or NULL, $3 whether last tries, $4 whether others, $5 microseconds, $6 how many
-- From one range, (task, queue, priority), straight to the next: ranges of tasks that nobody asks for, and jobs due later,
-- cost nothing, however many there are.
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
SELECT first.id, queue, first.claim_number
FROM clock CROSS JOIN ranges
CROSS JOIN LATERAL (
    SELECT id, claim_number, available_at FROM holdfast.pending
    WHERE state = 'available' AND task = ranges.task AND queue = ranges.queue AND priority = ranges.priority
        AND available_at <= now - $5::bigint * interval '1 microsecond'
        AND CASE
            WHEN claimable_until IS NULL THEN $4
            WHEN claimable_until = '-infinity' THEN $3
            ELSE $4 AND claimable_until > now
        END
    ORDER BY available_at, id
    LIMIT $6
) AS first
WHERE ($2::text[] IS NULL OR queue = ANY ($2)) AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
ORDER BY priority, available_at, id
LIMIT $6
