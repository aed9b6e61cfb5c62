-- Of one line, task $17, queue $18, priority $19, the first jobs after ($20, $21) that nobody holds locked, as they come.
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner) AND NOT EXISTS (SELECT FROM holdfast.paused AS paused WHERE paused.queue = $18::text)
    AND job.state = 'available' AND job.task = $17 AND job.queue = $18 AND job.priority = $19
    AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > ($20::timestamptz, $21::uuid) AND CASE
        WHEN job.proviso IS NULL THEN $14
        WHEN job.proviso = '-infinity' THEN $15
        ELSE $14 AND job.proviso > (SELECT now FROM clock)
    END
ORDER BY job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
