-- ranges(): all ranges, (task, queue, priority), of :tasks in which jobs wait: from one straight to the next.
ranges (task, queue, priority) AS (
    SELECT first.task, first.queue, first.priority
    FROM json_each(:tasks) AS known
    JOIN holdfast_jobs AS first ON first.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.queue, job.priority LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.queue, next.priority
    FROM ranges
    JOIN holdfast_jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.queue = ranges.queue
            AND job.priority > ranges.priority
        ORDER BY job.priority LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.queue > ranges.queue
        ORDER BY job.queue, job.priority LIMIT 1
    ))
)
