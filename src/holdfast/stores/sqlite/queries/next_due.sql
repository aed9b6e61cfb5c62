-- When the first waiting job of these tasks is due: the first of each line, found by the walk of exchange.sql.
WITH RECURSIVE lines (task, queue, priority, available_at) AS (
    SELECT first.task, first.queue, first.priority, first.available_at
    FROM json_each(:tasks) AS known
    JOIN jobs AS first ON first.rowid = (
        SELECT job.rowid FROM jobs AS job
        WHERE job.state = 'available' AND job.task = known.value
        ORDER BY job.queue, job.priority, job.available_at LIMIT 1
    )
    UNION ALL
    SELECT next.task, next.queue, next.priority, next.available_at
    FROM lines
    JOIN jobs AS next ON next.rowid = coalesce((
        SELECT job.rowid FROM jobs AS job
        WHERE job.state = 'available' AND job.task = lines.task AND job.queue = lines.queue
            AND job.priority > lines.priority
        ORDER BY job.priority, job.available_at LIMIT 1
    ), (
        SELECT job.rowid FROM jobs AS job
        WHERE job.state = 'available' AND job.task = lines.task AND job.queue > lines.queue
        ORDER BY job.queue, job.priority, job.available_at LIMIT 1
    ))
)
SELECT max(0, min(available_at) - :wall)
FROM lines
WHERE :queues IS NULL OR queue IN (SELECT value FROM json_each(:queues));
