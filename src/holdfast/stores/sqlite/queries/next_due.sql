-- When the first waiting job of these tasks that a claim would take is due.
-- Of each range the first such, by the walk of exchange.sql.
WITH RECURSIVE ranges (task, queue, priority) AS (
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
SELECT max(0, min((
    SELECT job.available_at FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = ranges.task AND job.queue = ranges.queue AND job.priority = ranges.priority
        AND CASE
            WHEN job.claimable_until IS NULL THEN :normal
            WHEN job.claimable_until = 0 THEN :isolated
            ELSE :normal AND job.claimable_until > :wall
        END
    ORDER BY job.available_at LIMIT 1
)) - :wall)
FROM ranges
WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND queue NOT IN (SELECT paused.queue FROM holdfast_paused_queues AS paused);
