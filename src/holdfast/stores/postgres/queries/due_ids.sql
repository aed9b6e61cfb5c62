-- Of these jobs only, $17, which a transport delivered; what else makes a job claimable holds for them too. $18 queues
-- (NULL: all).
SELECT job.ctid FROM holdfast.pending AS job
WHERE EXISTS (SELECT FROM owner) AND job.id = ANY($17::uuid[]) AND job.state = 'available' AND job.task = ANY($10::text[])
    AND (job.queue = ANY($18::text[]) OR $18 IS NULL)
    AND job.queue NOT IN (SELECT paused.queue FROM holdfast.paused_queues AS paused)
    AND job.available_at <= (SELECT now FROM clock) AND -- include claimable(job, $14, $15, (SELECT now FROM clock))
ORDER BY job.priority, job.available_at, job.id LIMIT $9
FOR UPDATE SKIP LOCKED
