-- ranges(most): ranges, (task, priority, queue, key), of :tasks in which jobs wait, all if most is -1: from one straight to the next.
-- Queues that are paused or not among :queues are passed by at once.
ranges (task, priority, queue, key) AS (
    SELECT first.task, first.priority, first.queue, first.key
    FROM json_each(:tasks) AS known
    JOIN holdfast_jobs AS first ON first.rowid = (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.priority, job.queue, job.key LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.priority, next.queue, next.key
    FROM ranges
    -- Several searches, because a comparison of rows, (queue, key) > (…), would read the rest of the current range.
    JOIN holdfast_jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority AND job.queue = ranges.queue
            AND job.key > ranges.key
            AND ranges.queue NOT IN (-- include paused())
            AND (:queues IS NULL OR ranges.queue IN (SELECT value FROM json_each(:queues)))
        ORDER BY job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority AND job.queue > ranges.queue
            AND :queues IS NULL
        ORDER BY job.queue, job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority
            AND job.queue >= (SELECT min(wanted.value) FROM json_each(:queues) AS wanted WHERE wanted.value > ranges.queue)
        ORDER BY job.queue, job.key LIMIT 1
    ), (
        SELECT job.rowid FROM holdfast_jobs AS job
        WHERE job.state = 'available' AND job.task = ranges.task AND job.priority > ranges.priority
        ORDER BY job.priority, job.queue, job.key LIMIT 1
    ))
    LIMIT most
)
