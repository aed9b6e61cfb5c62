-- Of all lines of the known tasks and queues $17 (NULL: all) the first due jobs, in one statement: for a worker that has little
-- to do, and to whom each statement more is time that a job waits. lines.sql says how the walk goes; $18: as its $3.
-- Nobody's lease is locked before there is a job: a look that finds nothing writes nothing.
WITH RECURSIVE walk (task, queue, priority, is_only, passed, due_at, due) AS (
    SELECT first.task, first.queue, first.priority, first.is_only, 0, head.available_at, head.id
    FROM (
        SELECT known.task, line.queue, line.priority, false AS is_only
        FROM unnest($10::text[]) AS known (task) CROSS JOIN LATERAL (
            SELECT job.queue, job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task
            ORDER BY job.queue, job.priority LIMIT 1
        ) AS line
        WHERE $17::text[] IS NULL
        UNION ALL
        SELECT known.task, wanted.queue, line.priority, true
        FROM unnest($10::text[]) AS known (task) CROSS JOIN unnest($17::text[]) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task AND job.queue = wanted.queue
            ORDER BY job.priority LIMIT 1
        ) AS line
    ) AS first
    LEFT JOIN LATERAL (
        SELECT job.available_at, job.id FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = first.task AND job.queue = first.queue AND job.priority = first.priority
            AND job.available_at <= (SELECT now FROM clock) AND CASE
                WHEN job.proviso IS NULL THEN $14
                WHEN job.proviso = '-infinity' THEN $15
                ELSE $14 AND job.proviso > (SELECT now FROM clock)
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
                WHEN job.proviso IS NULL THEN $14
                WHEN job.proviso = '-infinity' THEN $15
                ELSE $14 AND job.proviso > (SELECT now FROM clock)
            END
        ORDER BY job.available_at, job.id LIMIT 1
    ) AS head ON true
)

SELECT job.ctid FROM holdfast.pending AS job
WHERE job.ctid = ANY(ARRAY(
        SELECT candidate.place
        FROM (
            SELECT task, queue, priority FROM walk
            WHERE due IS NOT NULL AND queue NOT IN (SELECT paused.queue FROM holdfast.paused AS paused)
            ORDER BY priority, due_at, due LIMIT $18
        ) AS line CROSS JOIN LATERAL (
            SELECT job.ctid AS place FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = line.task AND job.queue = line.queue AND job.priority = line.priority
                AND job.available_at <= (SELECT now FROM clock) AND CASE
                    WHEN job.proviso IS NULL THEN $14
                    WHEN job.proviso = '-infinity' THEN $15
                    ELSE $14 AND job.proviso > (SELECT now FROM clock)
                END
            ORDER BY job.available_at, job.id LIMIT $9::bigint
        ) AS candidate
    ))
    -- Again, for whoever is changed just now; said so that no index is used for it.
    AND (job.state = 'available' AND job.available_at <= (SELECT now FROM clock)) IS TRUE
    AND CASE WHEN job.id IS NOT NULL THEN EXISTS (SELECT FROM owner) END
ORDER BY job.priority, job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
