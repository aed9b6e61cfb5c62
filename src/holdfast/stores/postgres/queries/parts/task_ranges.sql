-- task_ranges(most): all ranges of these tasks, at most that many of each, by a loose index scan: from one straight to the next.
-- Ranges of tasks that are not asked for, and jobs due later, cost nothing. Queues that are paused, or not in :queues, are passed as a
-- whole: their ranges may be many. chr(1) makes the next string after a string, in the order of bytes.
ranges AS (
    SELECT
        first.task, first.priority, first.queue, first.key, first.is_open, 1 AS nth,
        CASE WHEN first.is_open THEN first.queue ELSE first.queue || chr(1) END AS next_queue,
        CASE WHEN first.is_open THEN first.key || chr(1) ELSE '' END AS next_key
    FROM (SELECT DISTINCT unnest(:tasks::text[]) AS task) AS known
    CROSS JOIN LATERAL (
        SELECT task, priority, queue, key, (queue = ANY(:queues::text[])) IS NOT FALSE AND NOT EXISTS (
            SELECT FROM holdfast.queues AS paused WHERE paused.queue = pending.queue AND paused.paused_at IS NOT NULL
        ) AS is_open
        FROM holdfast.pending
        WHERE state = 'available' AND task = known.task
        ORDER BY priority, queue, key
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT
        next.task, next.priority, next.queue, next.key, next.is_open, ranges.nth + 1,
        CASE WHEN next.is_open THEN next.queue ELSE next.queue || chr(1) END,
        CASE WHEN next.is_open THEN next.key || chr(1) ELSE '' END
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT task, priority, queue, key, (queue = ANY(:queues::text[])) IS NOT FALSE AND NOT EXISTS (
            SELECT FROM holdfast.queues AS paused WHERE paused.queue = pending.queue AND paused.paused_at IS NOT NULL
        ) AS is_open
        FROM holdfast.pending
        WHERE state = 'available' AND task = ranges.task AND (priority, queue, key) >= (ranges.priority, ranges.next_queue, ranges.next_key)
        ORDER BY priority, queue, key
        LIMIT 1
    ) AS next
    WHERE ranges.nth < most
)
