-- Of one range, task $17, queue $18, priority $19, the first jobs after ($20, $21) that no other session has locked.
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner) AND NOT EXISTS (SELECT FROM holdfast.paused_queues AS paused WHERE paused.queue = $18::text)
    AND job.state = 'available' AND job.task = $17 AND job.queue = $18 AND job.priority = $19
    AND job.available_at <= (SELECT now FROM clock) AND (job.available_at, job.id) > ($20::timestamptz, $21::uuid) AND -- include claimable(job, $14, $15, (SELECT now FROM clock))
ORDER BY job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
