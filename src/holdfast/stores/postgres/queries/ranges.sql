-- Ranges, (task, queue, priority), of the tasks $1 and queues $2 (NULL: all) in which jobs are due: at most $3, because of
-- more only the first could be claimed. $4 and $5: which kinds of tries. And whether the lease $6 runs one job alone.
-- A loose index scan: from one range straight to the next, without reading the jobs in between. A queue's walk ends once $3 of its
-- more urgent ranges have jobs that are due.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
),

walk (task, queue, priority, is_only, passed, due_at, due) AS (
    SELECT first.task, first.queue, first.priority, first.is_only, 0, head.available_at, head.id
    FROM (
        SELECT known.task, range.queue, range.priority, false AS is_only
        FROM unnest($1::text[]) AS known (task) CROSS JOIN LATERAL (
            SELECT job.queue, job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task
            ORDER BY job.queue, job.priority LIMIT 1
        ) AS range
        WHERE $2::text[] IS NULL
        UNION ALL
        SELECT known.task, wanted.queue, range.priority, true
        FROM unnest($1::text[]) AS known (task) CROSS JOIN unnest($2::text[]) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task AND job.queue = wanted.queue
            ORDER BY job.priority LIMIT 1
        ) AS range
    ) AS first
    LEFT JOIN LATERAL (
        SELECT job.available_at, job.id FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = first.task AND job.queue = first.queue AND job.priority = first.priority
            AND job.available_at <= (SELECT now FROM clock) AND CASE
                WHEN job.claimable_until IS NULL THEN $4
                WHEN job.claimable_until = '-infinity' THEN $5
                ELSE $4 AND job.claimable_until > (SELECT now FROM clock)
            END
        ORDER BY job.available_at, job.id LIMIT 1
    ) AS head ON true
    UNION ALL
    SELECT walk.task, next.queue, next.priority, walk.is_only, next.passed, head.available_at, head.id
    FROM walk
    CROSS JOIN LATERAL (
        (
            SELECT job.queue, job.priority, walk.passed + (walk.due IS NOT NULL)::integer AS passed
            FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = walk.task AND job.queue = walk.queue AND job.priority > walk.priority
                AND walk.passed + (walk.due IS NOT NULL)::integer < $3
            ORDER BY job.priority LIMIT 1
        )
        UNION ALL
        (
            SELECT job.queue, job.priority, 0
            FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = walk.task AND job.queue > walk.queue AND NOT walk.is_only
            ORDER BY job.queue, job.priority LIMIT 1
        )
        LIMIT 1
    ) AS next
    LEFT JOIN LATERAL (
        SELECT job.available_at, job.id FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = walk.task AND job.queue = next.queue AND job.priority = next.priority
            AND job.available_at <= (SELECT now FROM clock) AND CASE
                WHEN job.claimable_until IS NULL THEN $4
                WHEN job.claimable_until = '-infinity' THEN $5
                ELSE $4 AND job.claimable_until > (SELECT now FROM clock)
            END
        ORDER BY job.available_at, job.id LIMIT 1
    ) AS head ON true
)

SELECT task, queue, priority, (SELECT lease.is_isolated FROM holdfast.leases AS lease WHERE lease.id = $6) AS is_isolated
FROM walk
WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
ORDER BY priority, due_at, due
LIMIT $3;
