-- Return when the first waiting job of these tasks that a claim would take is due, in microseconds from now, and whether ranges were left out.
-- It is a hint: it reads the first such job of at most 256 ranges.
WITH RECURSIVE
-- include ranges(256)
SELECT min((
    SELECT job.available_at FROM holdfast_jobs AS job
    WHERE job.state = 'available' AND job.task = ranges.task AND job.priority = ranges.priority AND job.queue = ranges.queue
        AND job.key = ranges.key
        AND -- include claimable(job, :normal, :isolated, :wall)
    ORDER BY job.available_at LIMIT 1
)) - :wall, (SELECT count(*) FROM ranges) = 256
FROM ranges
WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
    AND queue NOT IN (-- include paused());
