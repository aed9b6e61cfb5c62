-- queue_ranges(): all (task, priority) of which jobs wait, in any queue: a loose index scan, from one straight to the next.
queue_ranges (task, priority) AS (
    SELECT first.task, first.priority
    FROM holdfast_jobs AS first
    WHERE first.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task >= ''
        ORDER BY job.task, job.priority LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.priority
    FROM queue_ranges AS known
    JOIN holdfast_jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.task AND job.priority > known.priority
        ORDER BY job.priority LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task > known.task
        ORDER BY job.task, job.priority LIMIT 1
    ))
)
