-- Of all ranges of the known tasks and queues $17 (NULL: all) the first due jobs, in one statement.
-- It is for a worker that has little to do: each statement more is time that a job waits. ranges.sql describes the walk; $18: as its $3.
-- The lease is locked only once a job is found: a look that finds nothing writes nothing.
WITH RECURSIVE walk (task, queue, priority, is_only, passed, due_at, due) AS (
    SELECT first.task, first.queue, first.priority, first.is_only, 0, head.available_at, head.id
    FROM (
        SELECT known.task, range.queue, range.priority, false AS is_only
        FROM unnest($10::text[]) AS known (task) CROSS JOIN LATERAL (
            SELECT job.queue, job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task
            ORDER BY job.queue, job.priority LIMIT 1
        ) AS range
        WHERE $17::text[] IS NULL
        UNION ALL
        SELECT known.task, wanted.queue, range.priority, true
        FROM unnest($10::text[]) AS known (task) CROSS JOIN unnest($17::text[]) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task AND job.queue = wanted.queue
            ORDER BY job.priority LIMIT 1
        ) AS range
    ) AS first
    LEFT JOIN LATERAL (
        SELECT job.available_at, job.id FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = first.task AND job.queue = first.queue AND job.priority = first.priority
            AND job.available_at <= (SELECT now FROM clock) AND CASE
                WHEN job.claimable_until IS NULL THEN $14
                WHEN job.claimable_until = '-infinity' THEN $15
                ELSE $14 AND job.claimable_until > (SELECT now FROM clock)
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
                AND walk.passed + (walk.due IS NOT NULL)::integer < $18
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
                WHEN job.claimable_until IS NULL THEN $14
                WHEN job.claimable_until = '-infinity' THEN $15
                ELSE $14 AND job.claimable_until > (SELECT now FROM clock)
            END
        ORDER BY job.available_at, job.id LIMIT 1
    ) AS head ON true
)

SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM (
            SELECT task, queue, priority FROM walk
            WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
            ORDER BY priority, due_at, due LIMIT $18
        ) AS range CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = range.task AND job.queue = range.queue AND job.priority = range.priority
                AND job.available_at <= (SELECT now FROM clock) AND CASE
                    WHEN job.claimable_until IS NULL THEN $14
                    WHEN job.claimable_until = '-infinity' THEN $15
                    ELSE $14 AND job.claimable_until > (SELECT now FROM clock)
                END
            ORDER BY job.available_at, job.id LIMIT $9::bigint
        ) AS candidate
    ))
    -- Check again under the lock: the row may have changed. IS TRUE keeps the planner off the index.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
    AND CASE WHEN job.id IS NOT NULL THEN EXISTS (SELECT FROM owner) END
ORDER BY job.priority, job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
