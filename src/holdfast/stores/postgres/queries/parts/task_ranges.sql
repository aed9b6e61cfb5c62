-- task_ranges(): all ranges of these tasks, by a loose index scan: from one straight to the next.
-- Ranges of tasks that are not asked for, and jobs due later, cost nothing.
ranges AS (
    SELECT first.task, first.queue, first.priority
    FROM (SELECT DISTINCT unnest(:tasks::text[]) AS task) AS known
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
