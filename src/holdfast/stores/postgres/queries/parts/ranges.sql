-- ranges(): ranges, (task, queue, priority), in which jobs are due, and the first job of each.
-- A loose index scan: from one range straight to the next, without reading the jobs in between. The walk of a queue ends once that
-- many of its more urgent ranges have jobs that are due.
walk (task, queue, priority, is_only, passed, due_at, due) AS (
    SELECT first.task, first.queue, first.priority, first.is_only, 0, head.available_at, head.id
    FROM (
        SELECT known.task, range.queue, range.priority, false AS is_only
        FROM unnest(:tasks::text[]) AS known (task) CROSS JOIN LATERAL (
            SELECT job.queue, job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task
            ORDER BY job.queue, job.priority LIMIT 1
        ) AS range
        WHERE :queues::text[] IS NULL
        UNION ALL
        SELECT known.task, wanted.queue, range.priority, true
        FROM unnest(:tasks::text[]) AS known (task) CROSS JOIN unnest(:queues::text[]) AS wanted (queue) CROSS JOIN LATERAL (
            SELECT job.priority FROM holdfast.pending AS job
            WHERE job.state = 'available' AND job.task = known.task AND job.queue = wanted.queue
            ORDER BY job.priority LIMIT 1
        ) AS range
    ) AS first
    LEFT JOIN LATERAL (
        SELECT job.available_at, job.id FROM holdfast.pending AS job
        WHERE job.state = 'available' AND job.task = first.task AND job.queue = first.queue AND job.priority = first.priority
            AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, (SELECT now FROM clock))
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
                AND walk.passed + (walk.due IS NOT NULL)::integer < :most
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
            AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, (SELECT now FROM clock))
        ORDER BY job.available_at, job.id LIMIT 1
    ) AS head ON true
)
