-- Return when the first waiting job of these tasks that a claim would take is due.
-- It reads the first such job of each range, by the walk of exchange.sql.
WITH RECURSIVE -- include ranges()
SELECT max(0, min((
    SELECT job.available_at FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = ranges.task AND job.queue = ranges.queue AND job.priority = ranges.priority
        AND -- include claimable(job, :normal, :isolated, :wall)
    ORDER BY job.available_at LIMIT 1
)) - :wall)
FROM ranges
WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND queue NOT IN (SELECT paused.queue FROM holdfast_paused_queues AS paused);
